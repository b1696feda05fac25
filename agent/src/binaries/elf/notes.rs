//! Notes, and the GNU build ID, which is one.

use std::fmt::Write as _;

use goblin::elf::{note::NT_GNU_BUILD_ID, program_header::PT_NOTE, section_header::SHT_NOTE};

use super::{error::Error, file::Elf, numbers::u32_at, source::Source};

/// Most bytes of one segment or section of notes that are read.
const MAX_NOTES: u64 = 64 << 10;

/// Most segments and sections of notes that are read.
const MAX_PARTS: usize = 64;

/// Most bytes of a build ID: SHA-512 has 64.
pub(super) const MAX_BUILD_ID: usize = 64;

impl<S: Source> Elf<S> {
    /// The GNU build ID in lower-case hexadecimal.
    ///
    /// # Errors
    ///
    /// When the notes cannot be read.
    pub fn build_id(&self) -> Result<Option<String>, Error> {
        let segments = self
            .headers
            .iter()
            .filter(|segment| segment.p_type == PT_NOTE)
            .map(|segment| (segment.p_offset, segment.p_filesz, segment.p_align));
        let sections = self
            .sections
            .iter()
            .filter(|section| section.sh_type == SHT_NOTE)
            .map(|section| (section.sh_offset, section.sh_size, section.sh_addralign));
        for (offset, bytes, alignment) in segments.chain(sections).take(MAX_PARTS) {
            let bytes = bytes.min(MAX_NOTES);
            let notes = self.bytes_at("notes", offset, bytes, MAX_NOTES)?;
            if let Some(build_id) = find_build_id(&notes, if alignment == 8 { 8 } else { 4 }) {
                return Ok(Some(hexadecimal(build_id)));
            }
        }
        Ok(None)
    }
}

/// The GNU build ID in notes outside of a file, such as the running kernel's, in lower-case
/// hexadecimal.
#[must_use]
pub fn build_id_in(notes: &[u8]) -> Option<String> {
    find_build_id(notes, 4).map(hexadecimal)
}

fn find_build_id(notes: &[u8], alignment: usize) -> Option<&[u8]> {
    let is_build_id = |note: &Note<'_>| {
        note.kind == NT_GNU_BUILD_ID
            && note.name == b"GNU\0"
            && (1..=MAX_BUILD_ID).contains(&note.content.len())
    };
    let build_id = Notes::new(notes, alignment).find(is_build_id)?;
    Some(build_id.content)
}

/// A note.
pub(super) struct Note<'a> {
    pub(super) kind: u32,
    /// Who says what the kind means, with a zero byte.
    pub(super) name: &'a [u8],
    pub(super) content: &'a [u8],
}

/// The notes of a segment or a section, up to the first one that is not as it should be.
pub(super) struct Notes<'a> {
    rest: &'a [u8],
    /// Of contents and of notes, in bytes.
    alignment: usize,
}

impl<'a> Notes<'a> {
    pub(super) fn new(notes: &'a [u8], alignment: usize) -> Self {
        Self {
            rest: notes,
            alignment,
        }
    }
}

impl<'a> Iterator for Notes<'a> {
    type Item = Note<'a>;

    fn next(&mut self) -> Option<Note<'a>> {
        let rest = std::mem::take(&mut self.rest);
        if rest.len() < 12 {
            return None;
        }
        let name_end = 12_usize.checked_add(u32_at(rest, 0) as usize)?;
        let start = name_end.checked_next_multiple_of(self.alignment)?;
        let end = start.checked_add(u32_at(rest, 4) as usize)?;
        let note = Note {
            kind: u32_at(rest, 8),
            name: rest.get(12..name_end)?,
            content: rest.get(start..end)?,
        };
        let next = end.checked_next_multiple_of(self.alignment);
        self.rest = next.and_then(|next| rest.get(next..)).unwrap_or_default();
        Some(note)
    }
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// A note with an alignment of four bytes.
#[cfg(test)]
pub(super) fn made_note(kind: u32, name: &[u8], content: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    note.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
    note.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
    note.extend(kind.to_le_bytes());
    for part in [name, content] {
        note.extend(part);
        note.resize(note.len().next_multiple_of(4), 0);
    }
    note
}

#[cfg(test)]
mod tests {
    use super::{find_build_id, made_note as note};

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let mut notes = note(1, b"GNU\0", &[0; 16]);
        notes.extend(note(3, b"stapsdt\0", b"odd"));
        notes.extend(note(3, b"GNU\0", b"\x12\xab"));
        assert_eq!(find_build_id(&notes, 4), Some(&b"\x12\xab"[..]));
    }

    #[test]
    fn invalid_sizes_end_the_search() {
        let mut notes = note(1, b"GNU\0", b"");
        notes[0..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(find_build_id(&notes, 4), None);
        notes[0..4].copy_from_slice(&4_u32.to_le_bytes());
        notes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(find_build_id(&notes, 8), None);
    }
}
