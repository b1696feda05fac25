//! ELF files around sections, so that a run's bytes are the contents of sections alone.

/// Where the code of the files is; they do not hold it.
pub(crate) const CODE: u64 = 0x40_0000;

/// Bytes of code.
pub(crate) const CODE_BYTES: u64 = 1 << 24;

/// Where the loaded bytes of the files are.
pub(crate) const DATA: u64 = 0x1000_0000;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SECTION_BYTES: usize = 64;

/// A section.
pub(crate) struct Section<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether its flags have `SHF_COMPRESSED`.
    pub is_compressed: bool,
    /// Its contents.
    pub contents: &'a [u8],
}

impl<'a> Section<'a> {
    /// A section that is not compressed.
    pub(crate) fn new(name: &'a str, contents: &'a [u8]) -> Self {
        Self {
            name,
            is_compressed: false,
            contents,
        }
    }
}

const fn head_bytes(sections: usize) -> usize {
    // Besides those of the caller: the empty one, and that of the names.
    HEADER_BYTES + 2 * SEGMENT_BYTES + (sections + 2) * SECTION_BYTES
}

/// A file for `machine` with these sections, which are loaded one after the other, each at a multiple
/// of eight.
pub(crate) fn file(machine: u16, sections: &[Section<'_>]) -> Vec<u8> {
    let mut names = vec![0];
    let mut contents = Vec::new();
    let start = head_bytes(sections.len());
    let mut table = vec![0; SECTION_BYTES];
    for section in sections {
        let at = start + contents.len();
        let flags = if section.is_compressed { 0x800 } else { 2 };
        let bytes = section.contents.len();
        table.extend(header(names.len(), 1, flags, at, bytes));
        names.extend(section.name.as_bytes());
        names.push(0);
        contents.extend(section.contents);
        contents.resize(contents.len().next_multiple_of(8), 0);
    }
    table.extend(header(0, 3, 0, start + contents.len(), names.len()));
    contents.extend(names);
    let end = (start + contents.len()) as u64;

    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([3_u16.to_le_bytes(), machine.to_le_bytes()].concat());
    file.extend(1_u32.to_le_bytes());
    let tables = [0, HEADER_BYTES, HEADER_BYTES + 2 * SEGMENT_BYTES];
    for field in tables {
        file.extend((field as u64).to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    let sections = u16::try_from(sections.len() + 2).unwrap_or(u16::MAX);
    for field in [64, 56, 2, 64, sections, sections - 1] {
        file.extend(field.to_le_bytes());
    }
    // The first segment has no bytes in the file and is executable, the second is the file.
    for (flags, address, in_file, bytes) in [(5_u32, CODE, 0, CODE_BYTES), (6, DATA, end, end)] {
        file.extend([1_u32.to_le_bytes(), flags.to_le_bytes()].concat());
        for field in [0, address, address, in_file, bytes, 0x1000] {
            file.extend(field.to_le_bytes());
        }
    }
    file.extend(table);
    file.extend(contents);
    file
}

fn header(name: usize, kind: u32, flags: u64, at: usize, bytes: usize) -> Vec<u8> {
    let mut header = u32::try_from(name).unwrap_or(0).to_le_bytes().to_vec();
    header.extend(kind.to_le_bytes());
    let address = DATA + at as u64;
    for field in [flags, address, at as u64, bytes as u64, 0, 1, 0] {
        header.extend(field.to_le_bytes());
    }
    header
}
