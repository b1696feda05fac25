//! One executable file.

use std::{path::PathBuf, sync::Arc, time::Instant};

use super::{bytes::Bytes, vdso};
use crate::{
    binaries::elf::{Elf, Placement, Segments},
    process::{FileIdentity, Process, maps::Mapping},
};

/// How paths begin of what is a file only because memory that processes share has to be one.
const SHARED_MEMORY: [&str; 4] = ["/memfd:", "/dev/zero", "/dev/shm/", "/SYSV"];

/// What tells a file from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// A file.
    File(FileIdentity),
    /// The code that the kernel gives to every process.
    Vdso,
}

impl Identity {
    /// That of what is mapped.
    pub(super) fn of(process: &Process, mapping: &Mapping) -> Option<Self> {
        if mapping.is_vdso {
            return Some(Self::Vdso);
        }
        mapping.file.as_ref()?;
        process.identify_mapped(mapping).ok().map(Self::File)
    }
}

/// An executable file.
#[derive(Debug)]
pub struct Executable {
    number: u32,
    table: u32,
    identity: Identity,
    first_user: u32,
    path: PathBuf,
    bytes: Option<Arc<Bytes>>,
    /// Where its parts are loaded, and its build ID; [`None`] if it could not be read.
    image: Option<Image>,
    /// Processes that have it mapped.
    users: u32,
    /// When the last one ended.
    unused_since: Option<Instant>,
}

/// What an ELF file says of itself.
#[derive(Debug)]
struct Image {
    segments: Segments,
    build_id: Option<String>,
}

impl Executable {
    /// Opens the file of a mapping, unless too many are open; what cannot be opened or read is known
    /// by its path alone.
    pub(super) fn open(
        number: u32,
        table: u32,
        identity: Identity,
        process: &Process,
        mapping: &Mapping,
        may_open: bool,
    ) -> Self {
        let bytes = match identity {
            Identity::Vdso => vdso::read().ok().map(|bytes| Bytes::Memory(bytes.into())),
            Identity::File(_) if may_open => process.open_mapped(mapping).ok().map(Bytes::File),
            Identity::File(_) => None,
        };
        let bytes = bytes.map(Arc::new);
        let image = bytes.as_ref().and_then(|bytes| {
            let elf = Elf::read(Arc::clone(bytes)).ok()?;
            Some(Image {
                segments: elf.segments().clone(),
                build_id: elf.build_id().ok().flatten(),
            })
        });
        let path = match &mapping.file {
            Some(file) => file.path.clone(),
            None => PathBuf::from("[vdso]"),
        };
        Self {
            number,
            table,
            identity,
            first_user: process.pid(),
            path,
            bytes,
            image,
            users: 0,
            unused_since: None,
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The index of its unwind table.
    #[must_use]
    pub fn table(&self) -> u32 {
        self.table
    }

    /// The process in which it was first seen.
    #[must_use]
    pub fn first_user(&self) -> u32 {
        self.first_user
    }

    /// Its path as that process saw it.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Whether it is the code that the kernel gives to every process.
    #[must_use]
    pub fn is_vdso(&self) -> bool {
        self.identity == Identity::Vdso
    }

    /// Whether it is memory that a program has written code to, and no file that a compiler made.
    pub(super) fn is_memory(&self) -> bool {
        let path = self.path.to_string_lossy();
        self.image.is_none() && SHARED_MEMORY.iter().any(|start| path.starts_with(start))
    }

    /// GNU build ID in lower-case hexadecimal, where it has one.
    #[must_use]
    pub fn build_id(&self) -> Option<&str> {
        self.image.as_ref()?.build_id.as_deref()
    }

    /// The parts of it that are loaded; [`None`] if it could not be read.
    #[must_use]
    pub fn segments(&self) -> Option<&Segments> {
        self.image.as_ref().map(|image| &image.segments)
    }

    /// Its bytes; [`None`] if it could not be opened.
    #[must_use]
    pub fn bytes(&self) -> Option<&Arc<Bytes>> {
        self.bytes.as_ref()
    }

    /// What is to be taken from an address in a mapping to get the one that the file gives it. Of a
    /// file that could not be read that is the offset in the file.
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

    pub(super) fn add_user(&mut self) {
        self.users += 1;
        self.unused_since = None;
    }

    pub(super) fn remove_user(&mut self, now: Instant) {
        self.users = self.users.saturating_sub(1);
        if self.users == 0 {
            self.unused_since = Some(now);
        }
    }

    /// Since when no process has it mapped.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        self.unused_since
    }
}
