//! What an ELF file says: symbols, sections, its name and build ID, where it is loaded.
//!
//! Invariants: the bytes are untrusted: no value in them makes this panic, loop without a bound
//! or take more than a few megabytes; only what is asked for is read. Everything but the
//! segments is found by section headers, which survive `strip`.

mod notes;
mod source;
mod symbols;

use std::io;

use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Header, ProgramHeader, SectionHeader, header,
        program_header::{PF_X, PT_LOAD},
        section_header::{SHN_XINDEX, SHT_DYNAMIC, SHT_NOBITS},
    },
};
use thiserror::Error;

pub use source::Source;
pub use symbols::Symbol;

/// All files that are read have this shape.
const CONTEXT: Ctx = Ctx {
    container: Container::Big,
    le: Endian::Little,
};

/// Bytes of a file header.
const HEADER_BYTES: usize = header::header64::SIZEOF_EHDR;

/// Bytes of a section header.
const SECTION_BYTES: u64 = 64;

/// Bytes of a program header.
const SEGMENT_BYTES: u64 = 56;

/// Most section headers that are read: what fits into the 16 bits of `e_shnum`.
const MAX_SECTIONS: u64 = 0xffff;

/// Most bytes that the names of the sections may take.
const MAX_SECTION_NAMES: u64 = 4 << 20;

/// Most bytes that a dynamic section may take.
const MAX_DYNAMIC: u64 = 1 << 20;

/// Most bytes of a name.
const MAX_NAME: usize = 4096;

/// Smallest and largest page of the supported architectures; segments are mapped from a multiple
/// of the page's size on.
const PAGES: [u64; 2] = [4 << 10, 64 << 10];

/// Why an ELF file could not be read.
#[derive(Debug, Error)]
pub enum Error {
    /// The bytes could not be got.
    #[error("cannot read {bytes} bytes at {offset}")]
    Read {
        /// From where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else.
    #[error("not an ELF file")]
    NotElf,
    /// It is for another kind of machine.
    #[error("an ELF file, but not a 64-bit little-endian one")]
    OtherClass,
    /// The headers make no sense.
    #[error("malformed {what}")]
    Malformed {
        /// Which.
        what: &'static str,
        /// How.
        source: goblin::error::Error,
    },
    /// Something is larger than what is read.
    #[error("{what} of {bytes} bytes, more than {limit}")]
    TooLarge {
        /// Which.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The bound.
        limit: u64,
    },
}

/// An ELF file of 64 bits, least significant byte first.
#[derive(Debug)]
pub struct Elf<S> {
    source: S,
    header: Header,
    segments: Vec<ProgramHeader>,
    sections: Vec<SectionHeader>,
    section_names: Vec<u8>,
}

/// A part of a file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// First address.
    pub start: u64,
    /// Where in the file it starts, in bytes.
    pub file_offset: u64,
    /// Whether it may be executed.
    pub is_executable: bool,
}

/// A section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its address before the load bias is added.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Where in the file it is, if the file holds its bytes.
    pub file_offset: Option<u64>,
}

impl<S: Source> Elf<S> {
    /// Reads the headers.
    ///
    /// # Errors
    ///
    /// When it is no ELF file of the supported kind or cannot be read.
    pub fn read(source: S) -> Result<Self, Error> {
        let mut start = [0; HEADER_BYTES];
        source.fill(&mut start, 0).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return Error::NotElf;
            }
            Error::Read {
                offset: 0,
                bytes: HEADER_BYTES as u64,
                source: error,
            }
        })?;
        if !start.starts_with(header::ELFMAG) {
            return Err(Error::NotElf);
        }
        if start[header::EI_CLASS] != header::ELFCLASS64
            || start[header::EI_DATA] != header::ELFDATA2LSB
        {
            return Err(Error::OtherClass);
        }
        let header = goblin::elf::Elf::parse_header(&start).map_err(|source| Error::Malformed {
            what: "file header",
            source,
        })?;
        let mut elf = Self {
            source,
            header,
            segments: Vec::new(),
            sections: Vec::new(),
            section_names: Vec::new(),
        };
        elf.segments = elf.read_segments()?;
        elf.sections = elf.read_sections()?;
        elf.section_names = elf.read_section_names()?;
        Ok(elf)
    }

    fn read_segments(&self) -> Result<Vec<ProgramHeader>, Error> {
        let count = self.header.e_phnum;
        let bytes = u64::from(count) * SEGMENT_BYTES;
        let table = self.bytes_at("program headers", self.header.e_phoff, bytes, bytes)?;
        ProgramHeader::parse(&table, 0, count.into(), CONTEXT).map_err(|source| Error::Malformed {
            what: "program headers",
            source,
        })
    }

    fn read_sections(&self) -> Result<Vec<SectionHeader>, Error> {
        let start = self.header.e_shoff;
        if start == 0 {
            return Ok(Vec::new());
        }
        let malformed = |source| Error::Malformed {
            what: "section headers",
            source,
        };
        let read = |count: u64| {
            let limit = MAX_SECTIONS * SECTION_BYTES;
            let bytes = count.saturating_mul(SECTION_BYTES);
            let table = self.bytes_at("section headers", start, bytes, limit)?;
            let count = table.len() / SectionHeader::size(CONTEXT);
            SectionHeader::parse_from(&table, 0, count, CONTEXT).map_err(malformed)
        };
        match u64::from(self.header.e_shnum) {
            0 => {
                // The first header then holds the count.
                let first = read(1)?;
                read(first.first().map_or(1, |header| header.sh_size.max(1)))
            }
            count => read(count),
        }
    }

    fn read_section_names(&self) -> Result<Vec<u8>, Error> {
        let mut index = usize::from(self.header.e_shstrndx);
        if u32::from(self.header.e_shstrndx) == SHN_XINDEX {
            index = self.sections.first().map_or(0, |first| first.sh_link) as usize;
        }
        let Some(names) = self.sections.get(index) else {
            return Ok(Vec::new());
        };
        if names.sh_type == SHT_NOBITS {
            return Ok(Vec::new());
        }
        let limit = MAX_SECTION_NAMES;
        self.bytes_at("section names", names.sh_offset, names.sh_size, limit)
    }

    /// The machine it is for (`EM_X86_64`, …).
    #[must_use]
    pub fn machine(&self) -> u16 {
        self.header.e_machine
    }

    /// The section with this name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<Section> {
        self.sections
            .iter()
            .find(|section| self.section_name(section) == Some(name.as_bytes()))
            .map(|section| Section {
                address: section.sh_addr,
                bytes: section.sh_size,
                file_offset: (section.sh_type != SHT_NOBITS).then_some(section.sh_offset),
            })
    }

    fn section_name(&self, section: &SectionHeader) -> Option<&[u8]> {
        let name = self.section_names.get(section.sh_name..)?;
        name.split(|&byte| byte == 0).next()
    }

    /// The name by which other files ask for it (`DT_SONAME`).
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn soname(&self) -> Result<Option<String>, Error> {
        let is_dynamic = |section: &&SectionHeader| section.sh_type == SHT_DYNAMIC;
        let Some(dynamic) = self.sections.iter().find(is_dynamic) else {
            return Ok(None);
        };
        let Some(strings) = self.sections.get(dynamic.sh_link as usize) else {
            return Ok(None);
        };
        let entries = self.bytes_at(
            "dynamic section",
            dynamic.sh_offset,
            dynamic.sh_size,
            MAX_DYNAMIC,
        )?;
        let (entries, _) = entries.as_chunks::<16>();
        for entry in entries {
            let (tag, value) = (word(entry, 0), word(entry, 8));
            match tag {
                goblin::elf::dynamic::DT_NULL => break,
                goblin::elf::dynamic::DT_SONAME if value < strings.sh_size => {
                    let name = self.name_at(strings.sh_offset.saturating_add(value))?;
                    return Ok(Some(String::from_utf8_lossy(&name).into_owned()));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// What is added to the file's addresses to get those in memory, as one of its mappings
    /// shows it.
    #[must_use]
    pub fn load_bias(&self, placement: Placement) -> Option<u64> {
        if self.header.e_type == header::ET_EXEC {
            return Some(0);
        }
        let offset = placement.file_offset;
        let holds = |segment: &&ProgramHeader, page: u64| {
            let start = segment.p_offset & !(page - 1);
            let end = segment.p_offset.saturating_add(segment.p_filesz);
            (start..end).contains(&offset)
        };
        let loaded = || {
            self.segments
                .iter()
                .filter(|segment| segment.p_type == PT_LOAD)
                // A page of the file may hold the end of one segment and the start of the next,
                // which are mapped with different permissions.
                .filter(|segment| (segment.p_flags & PF_X != 0) == placement.is_executable)
        };
        PAGES
            .into_iter()
            .find_map(|page| loaded().find(|segment| holds(segment, page)))
            .map(|segment| {
                // Offset and address are congruent modulo the page, so this holds for any page
                // of the segment.
                let address = segment
                    .p_vaddr
                    .wrapping_add(offset)
                    .wrapping_sub(segment.p_offset);
                placement.start.wrapping_sub(address)
            })
    }

    /// Where in the file the `bytes` bytes at `address` are.
    #[must_use]
    pub fn file_offset(&self, address: u64, bytes: u64) -> Option<u64> {
        self.segments
            .iter()
            .filter(|segment| segment.p_type == PT_LOAD)
            .find_map(|segment| {
                let into = address.checked_sub(segment.p_vaddr)?;
                (into.checked_add(bytes)? <= segment.p_filesz)
                    .then(|| segment.p_offset.checked_add(into))?
            })
    }

    /// Fills `into` with what is at `address` when the file has just been loaded, without
    /// relocations, and says whether the file holds that.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn initial_bytes(&self, address: u64, into: &mut [u8]) -> Result<bool, Error> {
        match self.file_offset(address, into.len() as u64) {
            Some(offset) => self.fill(into, offset).map(|()| true),
            None => Ok(false),
        }
    }

    /// Calls `look` with the contents of the section `name`, in pieces of `piece` bytes, each of
    /// which starts with the last `overlap` bytes of the one before; stops after `limit` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn scan_section(
        &self,
        name: &str,
        overlap: usize,
        limit: u64,
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let Some(section) = self.section(name) else {
            return Ok(());
        };
        let Some(start) = section.file_offset else {
            return Ok(());
        };
        self.scan(start, section.bytes.min(limit), overlap, |_, piece| {
            look(piece);
        })
    }

    /// Calls `look` with the offset from `start` and the bytes of each piece.
    fn scan(
        &self,
        start: u64,
        bytes: u64,
        overlap: usize,
        mut look: impl FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        const PIECE: usize = 64 << 10;
        let mut piece = vec![0; PIECE];
        let mut kept = 0;
        let mut done = 0;
        while done < bytes {
            let fresh = at_most(bytes - done, PIECE - kept);
            let end = kept + fresh;
            self.fill(&mut piece[kept..end], start.saturating_add(done))?;
            look(done - kept as u64, &piece[..end]);
            done += fresh as u64;
            let keep = overlap.min(end);
            piece.copy_within(end - keep..end, 0);
            kept = keep;
        }
        Ok(())
    }

    /// The text at `offset` up to a zero byte, cut to [`MAX_NAME`] bytes.
    fn name_at(&self, offset: u64) -> Result<Vec<u8>, Error> {
        let mut name = Vec::new();
        let size = self.size()?;
        while name.len() < MAX_NAME {
            let at = offset.saturating_add(name.len() as u64);
            let mut piece = [0; 64];
            let bytes = at_most(size.saturating_sub(at), piece.len());
            if bytes == 0 {
                break;
            }
            self.fill(&mut piece[..bytes], at)?;
            if let Some(end) = piece[..bytes].iter().position(|&byte| byte == 0) {
                name.extend_from_slice(&piece[..end]);
                break;
            }
            name.extend_from_slice(&piece[..bytes]);
        }
        Ok(name)
    }

    fn size(&self) -> Result<u64, Error> {
        self.source.bytes().map_err(|source| Error::Read {
            offset: 0,
            bytes: 0,
            source,
        })
    }

    /// Reads `bytes` bytes at `offset`, at most `limit`.
    fn bytes_at(
        &self,
        what: &'static str,
        offset: u64,
        bytes: u64,
        limit: u64,
    ) -> Result<Vec<u8>, Error> {
        let too_large = Error::TooLarge { what, bytes, limit };
        let Ok(length) = usize::try_from(bytes) else {
            return Err(too_large);
        };
        if bytes > limit {
            return Err(too_large);
        }
        // No memory for what is not there.
        let available = self.size()?.saturating_sub(offset);
        if bytes > available {
            return Err(Error::Read {
                offset,
                bytes,
                source: io::ErrorKind::UnexpectedEof.into(),
            });
        }
        let mut into = vec![0; length];
        self.fill(&mut into, offset)?;
        Ok(into)
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> Result<(), Error> {
        self.source
            .fill(into, offset)
            .map_err(|source| Error::Read {
                offset,
                bytes: into.len() as u64,
                source,
            })
    }
}

/// A number of bytes, cut to `most`.
fn at_most(bytes: u64, most: usize) -> usize {
    usize::try_from(bytes).map_or(most, |bytes| bytes.min(most))
}

/// The eight bytes at `offset` of `bytes`; what is not there counts as zero.
fn word(bytes: &[u8], offset: usize) -> u64 {
    bytes
        .get(offset..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The four bytes at `offset` of `bytes`; what is not there counts as zero.
fn half(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;
