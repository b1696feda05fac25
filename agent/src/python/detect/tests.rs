use std::{
    cell::Cell,
    io,
    path::Path,
    process::{Command, Stdio},
};

use test_support::child;

use super::Detector;
use crate::{
    binaries::{
        elf::DebugFiles,
        executables::{Identity, MappedProgram},
    },
    process::{self, FileIdentity, OpenError, Process, RegularFile, file_name, maps::Mapping},
    python::program::Program,
};

/// A process whose dynamic linker has not mapped the C library when its mappings are read first.
struct Starting {
    process: Process,
    reads: Cell<u32>,
}

impl MappedProgram for Starting {
    fn running(&self) -> Option<u32> {
        self.process.running()
    }

    fn user(&self) -> Option<u32> {
        self.process.user()
    }

    fn mappings(&self) -> Result<Vec<Mapping>, process::Error> {
        let reads = self.reads.get();
        self.reads.set(reads + 1);
        let mut mappings = self.process.mappings()?;
        if reads == 0 {
            let is_library = |mapping: &Mapping| {
                let file = mapping.file.as_ref();
                file.is_some_and(|file| file_name(&file.path).starts_with(b"libc."))
            };
            mappings.retain(|mapping| !is_library(mapping));
        }
        Ok(mappings)
    }

    fn executable_identity(&self, mapping: &Mapping) -> Option<Identity> {
        self.process.executable_identity(mapping)
    }

    fn open_mapped(&self, mapping: &Mapping) -> Result<RegularFile, OpenError> {
        self.process.open_mapped(mapping)
    }

    fn read_vdso(&self, mapping: &Mapping) -> io::Result<Vec<u8>> {
        self.process.read_vdso(mapping)
    }
}

impl Program for Starting {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn executable(&self) -> &Path {
        self.process.executable()
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.process.word(address)
    }

    fn identify_mapped(&self, mapping: &Mapping) -> Result<FileIdentity, OpenError> {
        self.process.identify_mapped(mapping)
    }

    fn debug_files<'a>(&'a self, image: &'a Path) -> DebugFiles<'a> {
        Program::debug_files(&self.process, image)
    }

    fn is_same_program(&self) -> bool {
        self.process.is_same_program()
    }
}

/// Nothing else may have the process examined again: its mappings do not change any more.
#[test]
fn the_library_is_found_of_an_interpreter_that_started_during_the_search() {
    let mut python = child::start(
        Command::new("/usr/bin/python3")
            .args([
                "-c",
                "import sys; print(end='.', flush=True); sys.stdin.read()",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    child::wait_for_output(&mut python);
    let detector = Detector::default();
    let open = || Process::open(python.id()).unwrap();
    let usual = detector.detect(&open()).unwrap();
    let starting = Starting {
        process: open(),
        reads: Cell::new(0),
    };
    let found = detector.detect(&starting).unwrap();
    assert_eq!(starting.reads.get(), 2);
    assert_eq!(found.is_initialised, Some(true));
    assert!(!found.allocators.is_empty());
    assert_eq!(found.allocators, usual.allocators);
    assert_eq!(found.thread_pointer_distance, usual.thread_pointer_distance);
    assert_eq!(found.images, usual.images);
}
