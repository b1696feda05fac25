//! Programs in which interpreters are looked for: those of processes, and those of core dumps.

use std::path::Path;

use crate::{
    binaries::{
        core_dump::CoreDump,
        elf::{DebugFiles, Source},
        executables::MappedProgram,
    },
    process::{FileIdentity, OpenError, Process, maps::Mapping},
};

/// A program with its mappings, their files and its memory.
pub trait Program: MappedProgram {
    /// PID.
    fn pid(&self) -> u32;

    /// Path of its executable.
    fn executable(&self) -> &Path;

    /// The 64-bit number at an address, if it can be read.
    fn word(&self, address: u64) -> Option<u64>;

    /// The identity of the file of a mapping.
    ///
    /// # Errors
    ///
    /// When the file cannot be found.
    fn identify_mapped(&self, mapping: &Mapping) -> Result<FileIdentity, OpenError>;

    /// The files that may hold the debugging information of the file at `image`.
    fn debug_files<'a>(&'a self, image: &'a Path) -> DebugFiles<'a>;

    /// Whether it still is the same one as when it was opened.
    fn is_same_program(&self) -> bool;
}

impl Program for Process {
    fn pid(&self) -> u32 {
        self.pid()
    }

    fn executable(&self) -> &Path {
        self.executable()
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.memory().ok()?.word(address).ok()
    }

    fn identify_mapped(&self, mapping: &Mapping) -> Result<FileIdentity, OpenError> {
        self.identify_mapped(mapping)
    }

    fn debug_files<'a>(&'a self, image: &'a Path) -> DebugFiles<'a> {
        DebugFiles::of(self, image)
    }

    fn is_same_program(&self) -> bool {
        self.is_same_program()
    }
}

impl<S: Source> Program for CoreDump<S> {
    fn pid(&self) -> u32 {
        self.pid()
    }

    fn executable(&self) -> &Path {
        self.executable()
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read_memory(address, &mut word).ok()?;
        Some(u64::from_le_bytes(word))
    }

    fn identify_mapped(&self, mapping: &Mapping) -> Result<FileIdentity, OpenError> {
        let file = mapping.file.as_ref().ok_or(OpenError::Anonymous)?;
        let identity = self.mapped_file(mapping)?.identity();
        identity.map_err(|source| OpenError::Open {
            path: file.path.clone(),
            source,
        })
    }

    fn debug_files<'a>(&'a self, image: &'a Path) -> DebugFiles<'a> {
        DebugFiles::on_host(image)
    }

    fn is_same_program(&self) -> bool {
        true
    }
}
