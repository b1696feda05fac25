//! The line table of a unit.

use std::{num::NonZeroU64, ops::Range};

use gimli::{
    AttributeValue, DebugLine, DebugLineOffset, Dwarf, EndianSlice, LineProgramHeader,
    LittleEndian, Reader, Section as _,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{
    budget::WorkBudget, error::DwarfError, section_reader::SectionReader, unit::DwarfUnit,
};

/// Most bytes of the names of a unit's files.
const MAX_FILES: usize = 1 << 20;

/// Most rows of a unit, 12 MiB: the sequences from there on have no lines.
const MAX_ROWS: usize = 1 << 20;

/// Most bytes of a line program.
const MAX_PROGRAM: usize = 16 << 20;

/// Most bytes of a path.
const MAX_PATH: usize = 4 << 10;

/// The line table of a unit.
#[derive(Debug, Default)]
pub(super) struct UnitLines {
    pub(super) files: SourceFiles,
    /// By address, not overlapping.
    pub(super) sequences: Vec<Sequence>,
    /// The rows of all sequences, by address in each.
    pub(super) rows: Vec<Row>,
}

/// Contiguous addresses.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Sequence {
    begin: u64,
    end: u64,
    /// Range of its rows.
    first: u32,
    after: u32,
}

/// The first address of a line.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Row {
    /// Relative to the start of its sequence.
    address: u32,
    file: u32,
    line: u32,
}

impl UnitLines {
    /// Reads the sequences of a unit that are in `code`.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        offset: DebugLineOffset,
        code: &Range<u64>,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        // In one piece, it is run in half of the time.
        let program = program_at(dwarf, offset)?;
        let program = DebugLine::new(&program, LittleEndian);
        let size = unit.inner.header.address_size();
        let program = program.program(DebugLineOffset(0), size, None, None)?;
        let mut lines = Self {
            files: SourceFiles::read(dwarf, unit, program.header()),
            sequences: Vec::new(),
            rows: Vec::new(),
        };
        let mut program = program.rows();
        // Index of the sequence's first row, and its first address.
        let mut first = 0;
        let mut begin = 0;
        // A malformed end does not invalidate the rows before it.
        while lines.rows.len() < MAX_ROWS
            && let Ok(Some((_, row))) = program.next_row()
        {
            work.spend(1)?;
            if row.end_sequence() {
                lines.end_sequence(first, begin..row.address(), code);
                first = lines.rows.len();
                continue;
            }
            if lines.rows.len() == first {
                begin = row.address();
            }
            // gimli skips rows whose address decreases.
            let into = row.address().checked_sub(begin);
            let Some(address) = into.and_then(|into| u32::try_from(into).ok()) else {
                continue;
            };
            let row = Row {
                address,
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: row
                    .line()
                    .map_or(0, NonZeroU64::get)
                    .try_into()
                    .unwrap_or(0),
            };
            lines.add(first, row);
        }
        lines.rows.truncate(first);
        lines.rows.shrink_to_fit();
        lines
            .sequences
            .sort_unstable_by_key(|it| (it.begin, it.end));
        Ok(lines)
    }

    /// Adds a row to the sequence whose rows start at `first`.
    fn add(&mut self, first: usize, row: Row) {
        // Of several rows at an address the last one holds.
        if self.rows.len() > first
            && self
                .rows
                .last()
                .is_some_and(|last| last.address == row.address)
        {
            self.rows.pop();
        }
        // A row that differs in its column only is not needed.
        let is_same = |last: &Row| (last.file, last.line) == (row.file, row.line);
        if !(self.rows.len() > first && self.rows.last().is_some_and(is_same)) {
            self.rows.push(row);
        }
    }

    /// Ends the sequence whose rows start at `first`.
    fn end_sequence(&mut self, first: usize, addresses: Range<u64>, code: &Range<u64>) {
        let rows = self.rows.get(first..).unwrap_or_default();
        let is_valid = !rows.is_empty() && rows.is_sorted_by_key(|row| row.address);
        let range = (u32::try_from(first), u32::try_from(self.rows.len()));
        if is_valid
            && !addresses.is_empty()
            && code.contains(&addresses.start)
            && let (Ok(first), Ok(after)) = range
        {
            self.sequences.push(Sequence {
                begin: addresses.start,
                end: addresses.end,
                first,
                after,
            });
        } else {
            self.rows.truncate(first);
        }
    }

    /// The index of the file and the line of `address`; the line is 0 where the compiler recorded
    /// none.
    pub(super) fn find(&self, address: u64) -> Option<(u32, u32)> {
        let after = self.sequences.partition_point(|it| it.begin <= address);
        let sequence = self.sequences[..after].last()?;
        if address >= sequence.end {
            return None;
        }
        let rows = self
            .rows
            .get(sequence.first as usize..sequence.after as usize)?;
        let after = rows.partition_point(|row| u64::from(row.address) <= address - sequence.begin);
        let row = rows[..after].last()?;
        Some((row.file, row.line))
    }

    /// The path of a file.
    pub(super) fn path(&self, file: u32) -> Option<Vec<u8>> {
        self.files.path(file)
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
            + self.sequences.capacity() * size_of::<Sequence>()
            + self.files.bytes()
    }
}

/// The source files of a line table.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    /// The working directory of the compiler, and the directories from index 0 on.
    pub(super) directories: Vec<Text>,
    pub(super) files: Vec<SourceFile>,
    /// The bytes of all names.
    pub(super) text: Vec<u8>,
}

/// A range of the bytes of all names.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct Text {
    start: u32,
    bytes: u32,
}

/// A source file.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct SourceFile {
    /// Index of the directory; 0 is the compiler's.
    directory: u32,
    name: Text,
}

impl SourceFiles {
    fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        header: &LineProgramHeader<EndianSlice<'_, LittleEndian>>,
    ) -> Self {
        let mut read = Self::default();
        let directory = unit.inner.comp_dir.as_ref();
        let directory = directory.and_then(|text| text.take(MAX_PATH).ok());
        let directory = read.add(&directory.unwrap_or_default());
        read.directories.push(directory);
        // The first index is 0 or 1, depending on the version of DWARF.
        for index in 0..=header.include_directories().len() as u64 {
            let name = header.directory(index);
            let name = name.map_or_else(Text::default, |name| read.add_string(dwarf, unit, name));
            read.directories.push(name);
        }
        for index in 0..=header.file_names().len() as u64 {
            let file = header.file(index).map(|file| SourceFile {
                directory: u32::try_from(file.directory_index()).unwrap_or(u32::MAX),
                name: read.add_string(dwarf, unit, file.path_name()),
            });
            read.files.push(file.unwrap_or_default());
        }
        read.directories.shrink_to_fit();
        read.files.shrink_to_fit();
        read.text.shrink_to_fit();
        read
    }

    fn add_string(
        &mut self,
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        value: AttributeValue<EndianSlice<'_, LittleEndian>>,
    ) -> Text {
        let value = match value {
            AttributeValue::String(text) => {
                return self.add(&text.slice()[..text.len().min(MAX_PATH)]);
            }
            AttributeValue::DebugStrRef(offset) => AttributeValue::DebugStrRef(offset),
            AttributeValue::DebugStrRefSup(offset) => AttributeValue::DebugStrRefSup(offset),
            AttributeValue::DebugLineStrRef(offset) => AttributeValue::DebugLineStrRef(offset),
            AttributeValue::DebugStrOffsetsIndex(index) => {
                AttributeValue::DebugStrOffsetsIndex(index)
            }
            _ => return Text::default(),
        };
        let text: Option<SectionReader> = dwarf.attr_string(&unit.inner, value).ok();
        let text = text.and_then(|text| text.take(MAX_PATH).ok());
        self.add(&text.unwrap_or_default())
    }

    /// Adds bytes as far as there is room.
    fn add(&mut self, bytes: &[u8]) -> Text {
        let start = self.text.len();
        let bytes = &bytes[..bytes.len().min(MAX_FILES.saturating_sub(start))];
        self.text.extend_from_slice(bytes);
        // The limit fits.
        Text {
            start: u32::try_from(start).unwrap_or(0),
            bytes: u32::try_from(bytes.len()).unwrap_or(0),
        }
    }

    fn get(&self, text: Text) -> &[u8] {
        let start = text.start as usize;
        let range = start..start + text.bytes as usize;
        self.text.get(range).unwrap_or_default()
    }

    fn path(&self, file: u32) -> Option<Vec<u8>> {
        let file = self.files.get(file as usize)?;
        let name = self.get(file.name);
        if name.is_empty() {
            return None;
        }
        let mut path = name.to_vec();
        if file.directory != 0
            && let Some(directory) = self.directories.get(file.directory as usize + 1)
        {
            path = join(self.get(*directory), path);
        }
        let compiler = self.directories.first().copied();
        Some(join(self.get(compiler.unwrap_or_default()), path))
    }

    fn bytes(&self) -> usize {
        self.text.capacity()
            + self.directories.capacity() * size_of::<Text>()
            + self.files.capacity() * size_of::<SourceFile>()
    }
}

/// Joins a path to a directory if it is relative.
fn join(directory: &[u8], path: Vec<u8>) -> Vec<u8> {
    if path.starts_with(b"/") || directory.is_empty() {
        return path;
    }
    let separator: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, separator, &path].concat()
}

/// The bytes of a line program. Where it takes too much memory, its unit has no lines; where its file
/// table claims to, debugging information is not used at all.
fn program_at(
    dwarf: &Dwarf<SectionReader>,
    offset: DebugLineOffset,
) -> Result<Vec<u8>, DwarfError> {
    let mut start = dwarf.debug_line.reader().clone();
    start.skip(offset.0)?;
    let mut header = start.clone();
    let (bytes, format) = header.read_initial_length()?;
    let length_bytes = start.len() - header.len();
    if header.read_u16()? >= 5 {
        // Sizes of addresses and of segment selectors.
        header.skip(2)?;
    }
    if header.read_length(format)? > MAX_FILES {
        return Err(DwarfError::TooLarge);
    }
    let bytes = bytes.saturating_add(length_bytes);
    if bytes > MAX_PROGRAM {
        return Err(DwarfError::Malformed);
    }
    Ok(start.take(bytes)?)
}
