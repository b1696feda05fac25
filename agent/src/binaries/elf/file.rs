//! The headers of an ELF file, and bounded reads of its bytes.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Header, ProgramHeader, SectionHeader, header,
        section_header::{SHF_COMPRESSED, SHN_XINDEX, SHT_NOBITS},
    },
};

use super::{
    dynamic_entries::Dynamic,
    error::Error,
    numbers::at_most,
    segments::Segments,
    source::{Shared, Source},
};

/// Class and byte order of all supported files.
pub(in crate::binaries) const CONTEXT: Ctx = Ctx {
    container: Container::Big,
    le: Endian::Little,
};

/// Bytes of a file header.
pub(in crate::binaries) const HEADER_BYTES: usize = header::header64::SIZEOF_EHDR;

/// Bytes of a section header.
pub(in crate::binaries) const SECTION_BYTES: usize = 64;

/// Bytes of a program header.
pub(in crate::binaries) const SEGMENT_BYTES: usize = 56;

/// Most section headers: the range of `e_shnum`, of 16 bits.
const MAX_SECTIONS: u64 = 0xffff;

/// Most bytes of the names of sections.
const MAX_SECTION_NAMES: u64 = 4 << 20;

/// Most bytes of a name.
pub(super) const MAX_NAME: usize = 4096;

/// A 64-bit little-endian ELF file.
#[derive(Clone, Debug)]
pub struct Elf<S> {
    pub(super) source: S,
    pub(super) header: Header,
    pub(super) headers: Vec<ProgramHeader>,
    pub(super) segments: Segments,
    pub(super) sections: Vec<SectionHeader>,
    section_names: Vec<u8>,
    /// The dynamic section, once it was read.
    pub(super) dynamic: OnceLock<Dynamic>,
}

/// A section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its address before the load bias is added.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Its offset in the file; [`None`] where the file does not hold its bytes.
    pub file_offset: Option<u64>,
    /// Whether the file holds them compressed.
    pub is_compressed: bool,
}

impl<S: Source + Send + Sync + 'static> Elf<S> {
    /// The same file with a source that can be shared.
    #[must_use]
    pub fn share(self) -> Elf<Shared> {
        Elf {
            source: Arc::new(self.source),
            header: self.header,
            headers: self.headers,
            segments: self.segments,
            sections: self.sections,
            section_names: self.section_names,
            dynamic: self.dynamic,
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
    /// When it is not a supported ELF file or cannot be read.
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
            dynamic: OnceLock::new(),
        };
        elf.headers = elf.read_program_headers()?;
        elf.segments = Segments::new(&elf.header, &elf.headers);
        elf.sections = elf.read_sections()?;
        elf.section_names = elf.read_section_names()?;
        Ok(elf)
    }

    fn read_program_headers(&self) -> Result<Vec<ProgramHeader>, Error> {
        let count = self.header.e_phnum;
        let bytes = u64::from(count) * SEGMENT_BYTES as u64;
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
            let limit = MAX_SECTIONS * SECTION_BYTES as u64;
            let bytes = count.saturating_mul(SECTION_BYTES as u64);
            let table = self.bytes_at("section headers", start, bytes, limit)?;
            let count = table.len() / SectionHeader::size(CONTEXT);
            SectionHeader::parse_from(&table, 0, count, CONTEXT).map_err(malformed)
        };
        match u64::from(self.header.e_shnum) {
            0 => {
                // The first header holds the count.
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

    /// The loaded segments.
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

    pub(super) fn section_name(&self, section: &SectionHeader) -> Option<&[u8]> {
        let name = self.section_names.get(section.sh_name..)?;
        name.split(|&byte| byte == 0).next()
    }

    /// Fills `into` with the bytes at `address` as they are before relocation; returns whether the
    /// file holds them.
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

    /// The bytes at `offset` up to a zero byte, at most [`MAX_NAME`].
    pub(super) fn name_at(&self, offset: u64) -> Result<Vec<u8>, Error> {
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

    pub(super) fn size(&self) -> Result<u64, Error> {
        self.source.bytes().map_err(|source| Error::Read {
            offset: 0,
            bytes: 0,
            source,
        })
    }

    /// The `bytes` bytes at `offset`, which must not be more than `limit`.
    pub(super) fn bytes_at(
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
        // Memory is allocated only for bytes that exist.
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

    pub(super) fn fill(&self, into: &mut [u8], offset: u64) -> Result<(), Error> {
        self.source
            .fill(into, offset)
            .map_err(|source| Error::Read {
                offset,
                bytes: into.len() as u64,
                source,
            })
    }
}
