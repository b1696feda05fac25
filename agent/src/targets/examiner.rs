//! Examines a process: which program, which interpreter, which files it maps.
//!
//! Invariant: everything that is read of a process when it is new is read here, so that it can be
//! done on another thread.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    binaries::executables::{Executables, MappedExecutables},
    process::{self, Process},
    profile,
    python::{self, Detector, Interpreter},
    targets::labels::metadata::{MetadataOptions, ProcessMetadata},
};

/// Examines processes, from any thread.
#[derive(Debug, Default)]
pub struct Examiner {
    detector: Detector,
    /// [`None`] when only Python frames are wanted.
    executables: Option<Executables>,
    /// [`None`] when no labels are wanted.
    metadata: Mutex<Option<MetadataOptions>>,
}

/// What was found out about a process.
#[derive(Debug)]
pub struct Finding {
    /// The process.
    pub process: profile::Process,
    /// Its interpreter, or why it has no Python frames.
    pub interpreter: Result<Box<Interpreter>, python::Error>,
    /// The files that it maps; [`None`] if that was not asked for or could not be read.
    pub mapped: Option<MappedExecutables>,
    /// What labels are made of; [`None`] if that was not asked for or could not be read.
    pub metadata: Option<ProcessMetadata>,
    /// The examined process.
    pub opened: Process,
}

impl Finding {
    /// Whether the process may be about to map its interpreter, or the libraries of that.
    #[must_use]
    pub fn is_early(&self) -> bool {
        match &self.interpreter {
            Ok(interpreter) => interpreter.is_early(),
            Err(error) => matches!(
                error,
                python::Error::NotLoaded { .. } | python::Error::Unreadable { .. }
            ),
        }
    }

    /// Whether no interpreter is mapped, as long as the dynamic linker has not got so far.
    #[must_use]
    pub fn is_not_python(&self) -> bool {
        matches!(self.interpreter, Err(python::Error::NotPython { .. }))
    }
}

impl Examiner {
    /// Opens the files that processes map where `executables` is given.
    #[must_use]
    pub fn new(executables: Option<Executables>) -> Self {
        Self {
            executables,
            ..Self::default()
        }
    }

    /// Reads what labels are made of too, from now on.
    pub fn set_metadata(&self, wanted: MetadataOptions) {
        *self.metadata.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted);
    }

    /// Examines a process.
    ///
    /// # Errors
    ///
    /// When it has exited or cannot be opened.
    pub fn examine(&self, pid: u32, parent: Option<u32>) -> Result<Finding, process::Error> {
        let opened = Process::open(pid)?;
        // First what is gone first.
        let mapped = self
            .executables
            .as_ref()
            .and_then(|executables| executables.read_mappings(&opened).ok());
        let wanted = *self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        let metadata = wanted.and_then(|wanted| ProcessMetadata::read(&opened, wanted).ok());
        let mut process = profile::Process {
            pid,
            parent,
            name: opened.comm().to_owned(),
            executable: opened.executable().to_owned(),
            ..profile::Process::default()
        };
        let interpreter = self.detector.detect(&opened);
        if let Ok(interpreter) = &interpreter {
            process.is_python = true;
            process.runtime = format!("CPython {}", interpreter.version);
            process.images = Arc::clone(&interpreter.images);
        }
        Ok(Finding {
            process,
            interpreter: interpreter.map(Box::new),
            mapped,
            metadata,
            opened,
        })
    }
}
