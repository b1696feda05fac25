//! Whose executables are numbered: the programs of processes, and those of core dumps.

use std::io;

use super::vdso;
use crate::{
    binaries::{core_dump::CoreDump, elf::Source},
    process::{self, FileIdentity, OpenError, Process, RegularFile, maps::Mapping},
};

/// A program with its mappings and their files.
pub trait MappedProgram {
    /// Its process, if that runs.
    fn running(&self) -> Option<u32>;

    /// Effective user ID, where it is known.
    fn user(&self) -> Option<u32>;

    /// Its memory mappings, by ascending address.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn mappings(&self) -> Result<Vec<Mapping>, process::Error>;

    /// What tells the executable of a mapping from others; [`None`] where it has none, or that is not known.
    fn executable_identity(&self, mapping: &Mapping) -> Option<Identity>;

    /// Opens the file of a mapping for reading.
    ///
    /// # Errors
    ///
    /// When it cannot be opened or is not a regular file.
    fn open_mapped(&self, mapping: &Mapping) -> Result<RegularFile, OpenError>;

    /// The bytes of its vDSO, which is that mapping.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn read_vdso(&self, mapping: &Mapping) -> io::Result<Vec<u8>>;
}

/// Key by which an executable is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A file.
    File(FileIdentity),
    /// A file of a core dump that is not there any more, by its number in the dump.
    OfCore(u64),
    /// The vDSO, which the kernel maps into every process.
    Vdso,
}

impl MappedProgram for Process {
    fn running(&self) -> Option<u32> {
        Some(self.pid())
    }

    fn user(&self) -> Option<u32> {
        self.user()
    }

    fn mappings(&self) -> Result<Vec<Mapping>, process::Error> {
        self.mappings()
    }

    fn executable_identity(&self, mapping: &Mapping) -> Option<Identity> {
        if mapping.is_vdso {
            return Some(Identity::Vdso);
        }
        mapping.file.as_ref()?;
        self.identify_mapped(mapping).ok().map(Identity::File)
    }

    fn open_mapped(&self, mapping: &Mapping) -> Result<RegularFile, OpenError> {
        self.open_mapped(mapping)
    }

    fn read_vdso(&self, _: &Mapping) -> io::Result<Vec<u8>> {
        // The kernel maps the same one into all processes of an instruction set.
        vdso::read()
    }
}

impl<S: Source> MappedProgram for CoreDump<S> {
    fn running(&self) -> Option<u32> {
        None
    }

    fn user(&self) -> Option<u32> {
        None
    }

    fn mappings(&self) -> Result<Vec<Mapping>, process::Error> {
        Ok(self.mappings())
    }

    fn executable_identity(&self, mapping: &Mapping) -> Option<Identity> {
        if mapping.is_vdso {
            return Some(Identity::Vdso);
        }
        let file = mapping.file.as_ref()?;
        // Several paths may lead to one file.
        let identity = self.mapped_file(mapping).map(RegularFile::identity);
        Some(match identity {
            Ok(Ok(identity)) => Identity::File(identity),
            _ => Identity::OfCore(file.id.inode),
        })
    }

    fn open_mapped(&self, mapping: &Mapping) -> Result<RegularFile, OpenError> {
        self.open_mapped(mapping)
    }

    fn read_vdso(&self, mapping: &Mapping) -> io::Result<Vec<u8>> {
        // That of the kernel on which the process ran.
        let bytes = vdso::bounded(mapping.end.saturating_sub(mapping.start))?;
        let mut contents = vec![0; bytes];
        let read = self.read_memory(mapping.start, &mut contents);
        read.map_err(|_| io::ErrorKind::UnexpectedEof)?;
        Ok(contents)
    }
}
