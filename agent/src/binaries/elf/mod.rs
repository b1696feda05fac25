//! What an ELF file says: symbols, sections, its name and build ID, where it is loaded.
//!
//! Invariants: the bytes are untrusted: no value in them makes this panic, loop without a bound
//! or take more than a few megabytes; only what is asked for is read. What the loader needs is
//! found without section headers; they warn_on_error `strip`, but a file can do without.

mod contents;
mod debug_files;
mod dynamic;
mod embedded;
mod functions;
mod go;
mod loaded;
mod notes;
mod segments;
mod source;
mod symbols;

use std::{io, sync::Arc};

use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Header, ProgramHeader, SectionHeader, header,
        section_header::{SHF_COMPRESSED, SHN_XINDEX, SHT_NOBITS},
    },
};
use thiserror::Error;

use segments::Segment;

pub use debug_files::DebugFiles;
pub use functions::{Binding, Function, SymbolTable, Which};
pub use go::{GoFunction, GoTable, StackSize};
pub use notes::build_id_in;
pub use segments::{Placement, Segments};
pub use source::{Shared, Source};
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

/// Most places at which a word is found.
const MAX_FOUND: usize = 16;

/// Most bytes of a name.
const MAX_NAME: usize = 4096;

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
    /// A section is compressed in another way than with zlib or zstd, or not as it says.
    #[error("{what} is compressed in a way that is not understood")]
    Compressed {
        /// Which.
        what: &'static str,
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
    headers: Vec<ProgramHeader>,
    segments: Segments,
    sections: Vec<SectionHeader>,
    section_names: Vec<u8>,
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
    /// Whether the file holds them compressed.
    pub is_compressed: bool,
}

impl<S: Source + Send + Sync + 'static> Elf<S> {
    /// The same file, whose source can be read by several.
    #[must_use]
    pub fn share(self) -> Elf<Shared> {
        Elf {
            source: Arc::new(self.source),
            header: self.header,
            headers: self.headers,
            segments: self.segments,
            sections: self.sections,
            section_names: self.section_names,
        }
    }
}

impl Elf<Shared> {
    /// The source.
    #[must_use]
    pub fn source(&self) -> Shared {
        Arc::clone(&self.source)
    }
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
            segments: Segments::new(&header, &[]),
            header,
            headers: Vec::new(),
            sections: Vec::new(),
            section_names: Vec::new(),
        };
        elf.headers = elf.read_program_headers()?;
        elf.segments = Segments::new(&elf.header, &elf.headers);
        elf.sections = elf.read_sections()?;
        elf.section_names = elf.read_section_names()?;
        Ok(elf)
    }

    fn read_program_headers(&self) -> Result<Vec<ProgramHeader>, Error> {
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

    /// The parts that are loaded.
    #[must_use]
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Whether it has section headers.
    #[must_use]
    pub fn has_sections(&self) -> bool {
        !self.sections.is_empty()
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
                is_compressed: section.sh_flags & u64::from(SHF_COMPRESSED) != 0,
            })
    }

    fn section_name(&self, section: &SectionHeader) -> Option<&[u8]> {
        let name = self.section_names.get(section.sh_name..)?;
        name.split(|&byte| byte == 0).next()
    }

    /// Fills `into` with what is at `address` when the file has just been loaded, without
    /// relocations, and says whether the file holds that.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn initial_bytes(&self, address: u64, into: &mut [u8]) -> Result<bool, Error> {
        match self.segments.file_offset(address, into.len() as u64) {
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
        let place = self
            .section(name)
            .and_then(|section| Some((section.file_offset?, section.bytes)));
        match place {
            Some((start, bytes)) => {
                self.scan(start, bytes.min(limit), overlap, |_, piece| look(piece))
            }
            None => Ok(()),
        }
    }

    /// Calls `look` with the pieces of the whole file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or has more than `limit` bytes.
    pub fn scan_all(&self, limit: u64, mut look: impl FnMut(&[u8])) -> Result<(), Error> {
        let bytes = self.size()?;
        if bytes > limit {
            let what = "file";
            return Err(Error::TooLarge { what, bytes, limit });
        }
        self.scan(0, bytes, 0, |_, piece| look(piece))
    }

    /// Calls `look` in the same way with all that is loaded and cannot be written.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn scan_constants(
        &self,
        overlap: usize,
        mut limit: u64,
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        for segment in self.segments.iter().filter(|segment| !segment.is_writable) {
            let bytes = segment.file_bytes.min(limit);
            self.scan(segment.file_offset, bytes, overlap, |_, piece| look(piece))?;
            limit -= bytes;
        }
        Ok(())
    }

    /// The addresses, multiples of eight, at which `word` stands in data that can be written, as
    /// it is when the file has just been loaded; looks through `limit` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn find_in_data(&self, word: [u8; 8], limit: u64) -> Result<Vec<u64>, Error> {
        self.find_words(limit, |segment| segment.is_writable, |it| it == word)
    }

    /// The same of words that `is_wanted`, in all that is loaded and is not code.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn find_outside_code(
        &self,
        limit: u64,
        is_wanted: impl Fn([u8; 8]) -> bool,
    ) -> Result<Vec<u64>, Error> {
        self.find_words(limit, |segment| !segment.is_executable, is_wanted)
    }

    fn find_words(
        &self,
        mut limit: u64,
        is_searched: impl Fn(&Segment) -> bool,
        is_wanted: impl Fn([u8; 8]) -> bool,
    ) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        for segment in self.segments.iter().filter(|segment| is_searched(segment)) {
            let skipped = segment.address.wrapping_neg() & 7;
            let bytes = segment.file_bytes.saturating_sub(skipped).min(limit);
            let start = segment.file_offset.saturating_add(skipped);
            self.scan(start, bytes, 0, |into, piece| {
                let (words, _) = piece.as_chunks();
                let matching = words.iter().enumerate().filter(|(_, it)| is_wanted(**it));
                let address = |index: usize| {
                    let into = skipped + into + 8 * index as u64;
                    segment.address.wrapping_add(into)
                };
                let room = MAX_FOUND - found.len();
                found.extend(matching.take(room).map(|(index, _)| address(index)));
            })?;
            limit -= bytes;
        }
        Ok(found)
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
