//! One executable.

use std::{path::PathBuf, sync::Arc};

use super::{
    bytes::Bytes,
    mapped_program::{Identity, MappedProgram},
};
use crate::{
    binaries::elf::{Elf, Placement, Segments},
    process::maps::Mapping,
    workers::Subject,
};

/// Prefixes of the paths of shared memory, which is no file on a disk.
const SHARED_MEMORY: [&str; 4] = ["/memfd:", "/dev/zero", "/dev/shm/", "/SYSV"];

/// An executable: a file that processes map executable, or the vDSO.
#[derive(Debug)]
pub struct Executable {
    number: u32,
    table: u32,
    identity: Identity,
    first_user: Option<u32>,
    path: PathBuf,
    bytes: Option<Arc<Bytes>>,
    /// [`None`] if it is no ELF file or could not be read.
    elf: Option<ElfFacts>,
}

/// Facts of an ELF file, kept after it was parsed.
#[derive(Clone, Debug)]
struct ElfFacts {
    segments: Segments,
    build_id: Option<String>,
}

impl Executable {
    /// Opens the file of a mapping if `may_open`. A file that is not opened or cannot be read has only
    /// a path.
    pub(super) fn open(
        identity: Identity,
        program: &impl MappedProgram,
        mapping: &Mapping,
        may_open: bool,
    ) -> Self {
        let bytes = match identity {
            Identity::Vdso => {
                let bytes = program.read_vdso(mapping);
                bytes.ok().map(|bytes| Bytes::Memory(bytes.into()))
            }
            Identity::File(_) | Identity::OfCore(_) if may_open => {
                program.open_mapped(mapping).ok().map(Bytes::File)
            }
            Identity::File(_) | Identity::OfCore(_) => None,
        };
        let bytes = bytes.map(Arc::new);
        let elf = bytes.as_ref().and_then(|bytes| {
            let elf = Elf::read(Arc::clone(bytes)).ok()?;
            Some(ElfFacts {
                segments: elf.segments().clone(),
                build_id: elf.build_id().ok().flatten(),
            })
        });
        let path = match &mapping.file {
            Some(file) => file.path.clone(),
            None => PathBuf::from("[vdso]"),
        };
        Self {
            number: 0,
            table: 0,
            identity,
            first_user: program.running(),
            path,
            bytes,
            elf,
        }
    }

    /// Gives it its number and the index of its unwind table.
    pub(super) fn with_number(self, number: u32, table: u32) -> Self {
        Self {
            number,
            table,
            ..self
        }
    }

    /// The same, whose file is not open.
    pub(super) fn without_bytes(&self) -> Self {
        Self {
            number: self.number,
            table: self.table,
            identity: self.identity,
            first_user: self.first_user,
            path: self.path.clone(),
            bytes: None,
            elf: self.elf.clone(),
        }
    }

    /// Whether its file is open.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.bytes.as_deref(), Some(Bytes::File(_)))
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// It, for [`Workers`](crate::workers::Workers).
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject::new(("executable", self.number), self.path.to_string_lossy())
    }

    /// Its number, which is not reused.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The index of its unwind table.
    #[must_use]
    pub fn table(&self) -> u32 {
        self.table
    }

    /// The id of the process in which it was first seen; [`None`] where that had ended.
    #[must_use]
    pub fn first_user(&self) -> Option<u32> {
        self.first_user
    }

    /// Its path in the root of its first process.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Whether it is the vDSO.
    #[must_use]
    pub fn is_vdso(&self) -> bool {
        self.identity == Identity::Vdso
    }

    /// Whether it is shared memory with generated code, not a file of a compiler.
    pub(super) fn is_memory(&self) -> bool {
        let path = self.path.to_string_lossy();
        self.elf.is_none() && SHARED_MEMORY.iter().any(|start| path.starts_with(start))
    }

    /// GNU build ID in lower-case hexadecimal, if it has one.
    #[must_use]
    pub fn build_id(&self) -> Option<&str> {
        self.elf.as_ref()?.build_id.as_deref()
    }

    /// Its loaded segments; [`None`] if it is no ELF file or could not be read.
    #[must_use]
    pub fn segments(&self) -> Option<&Segments> {
        self.elf.as_ref().map(|image| &image.segments)
    }

    /// Its bytes; [`None`] if it could not be opened.
    #[must_use]
    pub fn bytes(&self) -> Option<&Arc<Bytes>> {
        self.bytes.as_ref()
    }

    /// The load bias of a mapping: subtracted from an address in memory it gives the address in the
    /// file, or, for a file that could not be read, the offset in the file.
    pub(super) fn bias(&self, mapping: &Mapping) -> u64 {
        let placement = Placement {
            start: mapping.start,
            file_offset: mapping.file_offset,
            is_executable: true,
        };
        let segments = self.segments();
        segments
            .and_then(|segments| segments.load_bias(placement))
            .unwrap_or(mapping.start.wrapping_sub(mapping.file_offset))
    }
}
