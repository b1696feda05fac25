//! Which memory is where in the file.

use std::{io, path::Path};

use goblin::elf::{
    Header, ProgramHeader, SectionHeader, header,
    program_header::{PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE},
};

use super::error::CoreError;
use crate::{
    binaries::elf::{CONTEXT, HEADER_BYTES, SECTION_BYTES, SEGMENT_BYTES, Source},
    process::maps::Permissions,
};

/// `e_phnum` where the number is in the first section header.
const PN_XNUM: u16 = 0xffff;

/// Most segments: more than ten times the mappings that a process may have by default.
const MAX_SEGMENTS: u64 = 1 << 20;

/// The machine of the processes whose core dumps are read.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    header::EM_AARCH64
} else {
    header::EM_X86_64
};

/// How files begin that are compressed, and what decompresses them.
const COMPRESSED: [(&[u8], &str); 4] = [
    (b"\x28\xb5\x2f\xfd", "zstd -d"),
    (b"\x04\x22\x4d\x18", "lz4 -d"),
    (b"\xfd7zXZ\0", "xz -d"),
    (b"\x1f\x8b", "gzip -d"),
];

/// A range of the memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// First address.
    pub(super) start: u64,
    /// Its size in memory.
    pub(super) bytes: u64,
    /// Offset of its start in the file.
    pub(super) offset: u64,
    /// Bytes of it that the file was to hold.
    pub(super) dumped: u64,
    /// Bytes of it that the file holds.
    pub(super) held: u64,
    pub(super) permissions: Permissions,
}

impl Segment {
    /// The end address, exclusive.
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }
}

/// What the headers say.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    /// By ascending address.
    pub(super) segments: Vec<Segment>,
    /// Offset and size of each part of the notes.
    pub(super) notes: Vec<(u64, u64)>,
    /// Bytes that the file should have.
    pub(super) whole_bytes: u64,
}

impl Headers {
    /// Reads the headers of the file at `path`.
    pub(super) fn read<S: Source>(source: &S, path: &Path) -> Result<Self, CoreError> {
        let file_bytes = source.bytes().map_err(|source| CoreError::Read {
            path: path.to_owned(),
            source,
        })?;
        let header = file_header(source, path)?;
        let truncated = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CoreError::Truncated {
                path: path.to_owned(),
            },
            _ => CoreError::Read {
                path: path.to_owned(),
                source: error,
            },
        };
        let not_core = |_| CoreError::NotCore {
            path: path.to_owned(),
        };
        let mut count = u64::from(header.e_phnum);
        if header.e_phnum == PN_XNUM {
            let mut section = [0; SECTION_BYTES];
            source
                .fill(&mut section, header.e_shoff)
                .map_err(truncated)?;
            let first = SectionHeader::parse(&section, 0, 1, CONTEXT).map_err(not_core)?;
            count = first.first().map_or(0, |first| first.sh_info.into());
        }
        if count > MAX_SEGMENTS {
            return Err(CoreError::TooMany {
                path: path.to_owned(),
                what: "segments",
                count,
                limit: MAX_SEGMENTS,
            });
        }
        let count = usize::try_from(count).unwrap_or(0);
        let bytes = count * SEGMENT_BYTES;
        // Memory is allocated only for bytes that exist.
        if header.e_phoff.saturating_add(bytes as u64) > file_bytes {
            return Err(truncated(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut table = vec![0; bytes];
        source.fill(&mut table, header.e_phoff).map_err(truncated)?;
        let headers = ProgramHeader::parse(&table, 0, count, CONTEXT).map_err(not_core)?;
        Ok(Self::new(&headers, file_bytes))
    }

    fn new(headers: &[ProgramHeader], file_bytes: u64) -> Self {
        let mut found = Self::default();
        for header in headers {
            let end = header.p_offset.saturating_add(header.p_filesz);
            found.whole_bytes = found.whole_bytes.max(end);
            match header.p_type {
                PT_NOTE => found.notes.push((header.p_offset, header.p_filesz)),
                PT_LOAD => {
                    let dumped = header.p_filesz.min(header.p_memsz);
                    found.segments.push(Segment {
                        start: header.p_vaddr,
                        bytes: header.p_memsz,
                        offset: header.p_offset,
                        dumped,
                        held: dumped.min(file_bytes.saturating_sub(header.p_offset)),
                        permissions: Permissions {
                            read: header.p_flags & PF_R != 0,
                            write: header.p_flags & PF_W != 0,
                            execute: header.p_flags & PF_X != 0,
                        },
                    });
                }
                _ => {}
            }
        }
        found.segments.sort_by_key(|segment| segment.start);
        found
    }
}

/// Reads the header of the file, and whether it is a core dump that can be read.
fn file_header<S: Source>(source: &S, path: &Path) -> Result<Header, CoreError> {
    let path = || path.to_owned();
    let mut start = [0; HEADER_BYTES];
    source.fill(&mut start, 0).map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return CoreError::NotCore { path: path() };
        }
        CoreError::Read {
            path: path(),
            source: error,
        }
    })?;
    if let Some((_, program)) = COMPRESSED
        .iter()
        .find(|(magic, _)| start.starts_with(magic))
    {
        return Err(CoreError::Compressed {
            path: path(),
            program,
        });
    }
    if !start.starts_with(header::ELFMAG) {
        return Err(CoreError::NotCore { path: path() });
    }
    // Type and machine are at the same place in both classes.
    let kind = u16::from_le_bytes([start[16], start[17]]);
    let machine = u16::from_le_bytes([start[18], start[19]]);
    if start[header::EI_DATA] != header::ELFDATA2LSB {
        return Err(CoreError::OtherMachine {
            path: path(),
            machine: "a big-endian machine".to_owned(),
        });
    }
    if kind != header::ET_CORE {
        return Err(CoreError::Program { path: path() });
    }
    if start[header::EI_CLASS] != header::ELFCLASS64 {
        return Err(CoreError::Not64Bit { path: path() });
    }
    if machine != MACHINE {
        return Err(CoreError::OtherMachine {
            path: path(),
            machine: machine_name(machine),
        });
    }
    goblin::elf::Elf::parse_header(&start).map_err(|_| CoreError::NotCore { path: path() })
}

/// As `uname -m` has it.
fn machine_name(machine: u16) -> String {
    match machine {
        header::EM_X86_64 => "x86_64".to_owned(),
        header::EM_AARCH64 => "aarch64".to_owned(),
        header::EM_PPC64 => "ppc64le".to_owned(),
        header::EM_RISCV => "riscv64".to_owned(),
        other => format!("the ELF machine {other}"),
    }
}
