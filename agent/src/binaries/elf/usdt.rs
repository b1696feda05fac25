//! USDT probes: places that a program announces, each with its arguments.
//!
//! A probe is an instruction that does nothing, and a note for `SystemTap` that says where it is and where its
//! arguments are (<https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>).

use super::{
    error::Error,
    file::Elf,
    notes::{self, Notes},
    numbers::u64_at,
    source::Source,
};

/// Most bytes of notes that are read: a CPython that announces its calls has less than 2 KiB.
const MAX_NOTES: u64 = 1 << 20;

/// Most probes of a file with a name: to take one away takes the kernel an eighth of a second.
const MAX_PROBES: usize = 8;

/// The type of the notes.
const NT_STAPSDT: u32 = 3;

/// Instructions that do nothing: of one byte and of five on x86-64, of four on ARM.
const NOTHING: [&[u8]; 3] = [
    &[0x90],
    &[0x0f, 0x1f, 0x44, 0, 0],
    &[0x1f, 0x20, 0x03, 0xd5],
];

/// Bytes of the addresses of a note.
const ADDRESSES: usize = 24;

/// A place with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtProbe {
    /// Its instruction, in bytes from the start of the file.
    pub offset: u64,
    /// A 16-bit counter of those who look at the probe, in bytes from the start of the file; without it the program
    /// takes the probe for one at which somebody always looks.
    pub semaphore: Option<u32>,
    /// Where its arguments are, as the assembler wrote it: `8@%rdi -4@8(%rsp)`.
    pub arguments: String,
}

impl<S: Source> Elf<S> {
    /// The probes with a name.
    ///
    /// # Errors
    ///
    /// When the notes cannot be read.
    pub fn usdt_probes(&self, provider: &str, name: &str) -> Result<Vec<UsdtProbe>, Error> {
        let notes = self.contents(".note.stapsdt", MAX_NOTES)?;
        // What prelinking has moved the file by.
        let base = self.section(".stapsdt.base").map(|section| section.address);
        let is_wanted =
            |note: &Note<'_>| note.provider == provider.as_bytes() && note.name == name.as_bytes();
        let mut found: Vec<UsdtProbe> = Vec::new();
        for note in probes(&notes).filter(is_wanted).take(MAX_PROBES) {
            let moved = base.map_or(0, |base| base.wrapping_sub(note.base));
            let probe = self.usdt_probe(&note, moved)?;
            // Two at one place would run twice.
            let is_known = |probe: &UsdtProbe| found.iter().any(|it| it.offset == probe.offset);
            found.extend(probe.filter(|probe| !is_known(probe)));
        }
        Ok(found)
    }

    /// The probe of a note, by how far the file was moved; [`None`] where the note does not lead to an instruction that
    /// does nothing, or to a counter that the kernel would accept.
    fn usdt_probe(&self, note: &Note<'_>, moved: u64) -> Result<Option<UsdtProbe>, Error> {
        let address = note.address.wrapping_add(moved);
        let mut instruction = [0; 5];
        if !self.segments().code().any(|range| range.contains(&address))
            || !self.initial_bytes(address, &mut instruction)?
            || !NOTHING.iter().any(|it| instruction.starts_with(it))
        {
            return Ok(None);
        }
        let semaphore = match note.semaphore {
            0 => None,
            address => match self.semaphore(address.wrapping_add(moved)) {
                Some(offset) => Some(offset),
                None => return Ok(None),
            },
        };
        let arguments = String::from_utf8(note.arguments.to_owned());
        let offset = self.segments().file_offset(address, 1);
        Ok(offset
            .zip(arguments.ok())
            .map(|(offset, arguments)| UsdtProbe {
                offset,
                semaphore,
                arguments,
            }))
    }

    /// Where a counter is in the file: in memory that the program may write, and where the kernel can be told that it
    /// is.
    fn semaphore(&self, address: u64) -> Option<u32> {
        let is_writable = self.segments().iter().any(|segment| {
            let into = address.checked_sub(segment.address);
            segment.is_writable && into.is_some_and(|into| into < segment.file_bytes)
        });
        let offset = self.segments().file_offset(address, 2)?;
        let offset = u32::try_from(offset).ok()?;
        (is_writable && offset.is_multiple_of(2)).then_some(offset)
    }
}

/// A note as it is in the file.
#[derive(Debug, PartialEq, Eq)]
struct Note<'a> {
    address: u64,
    /// The address of the section `.stapsdt.base` when the file was linked.
    base: u64,
    semaphore: u64,
    provider: &'a [u8],
    name: &'a [u8],
    arguments: &'a [u8],
}

/// The notes of probes in a section.
fn probes(notes: &[u8]) -> impl Iterator<Item = Note<'_>> {
    let is_probe = |note: &notes::Note<'_>| note.kind == NT_STAPSDT && note.name == b"stapsdt\0";
    let notes = Notes::new(notes, 4).filter(is_probe);
    notes.filter_map(|note| Note::parse(note.content))
}

impl<'a> Note<'a> {
    fn parse(content: &'a [u8]) -> Option<Self> {
        let (addresses, texts) = content.split_at_checked(ADDRESSES)?;
        let mut texts = texts.split(|byte| *byte == 0);
        Some(Self {
            address: u64_at(addresses, 0),
            base: u64_at(addresses, 8),
            semaphore: u64_at(addresses, 16),
            provider: texts.next()?,
            name: texts.next()?,
            arguments: texts.next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notes::made_note as note;

    fn content(texts: &[u8]) -> Vec<u8> {
        let words = [0x1000_u64, 0x2000, 0x3000];
        let addresses = words.iter().flat_map(|it| it.to_le_bytes());
        addresses.chain(texts.iter().copied()).collect()
    }

    #[test]
    fn notes_of_probes_are_found_among_others() {
        let probe = content(b"otel_memory\0alloc\08@%rdi 8@%rsi\0");
        let mut notes = note(3, b"GNU\0", b"\x12\xab");
        notes.extend(note(3, b"stapsdt\0", b"short"));
        notes.extend(note(3, b"stapsdt\0", &probe));
        notes.extend(note(4, b"stapsdt\0", &probe));
        let expected = Note {
            address: 0x1000,
            base: 0x2000,
            semaphore: 0x3000,
            provider: b"otel_memory",
            name: b"alloc",
            arguments: b"8@%rdi 8@%rsi",
        };
        assert_eq!(probes(&notes).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn notes_that_lie_about_their_length_end_the_search() {
        let mut notes = note(3, b"stapsdt\0", &content(b"a\0b\0c\0"));
        notes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(probes(&notes).next(), None);
        let mut notes = note(3, b"stapsdt\0", &content(b"a\0b\0c\0"));
        notes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(probes(&notes).next(), None);
    }
}
