//! Metadata of a process that the process itself has.

use std::path::PathBuf;

use super::attributes::{Attributes, RESOURCE_ATTRIBUTES, SERVICE_NAME};
use crate::process::{self, Process, cgroup::Cgroup, file_name};

/// What to read besides what is always read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataOptions {
    /// The command line, which may hold secrets.
    pub command_line: bool,
    /// Leave out the `OTEL_…` environment, which whoever starts a process chooses.
    pub without_environment: bool,
}

/// Metadata of a process; read once per program that it executes.
#[derive(Clone, Debug, Default)]
pub struct ProcessMetadata {
    /// Its id, as the agent sees it.
    pub pid: u32,
    /// Its parent.
    pub parent: Option<u32>,
    /// The kernel's name of it.
    pub comm: String,
    /// Path of its executable, as it sees it.
    pub executable: PathBuf,
    /// The script or module that it runs, or of which it is a worker, if it is an interpreter.
    pub script: Option<String>,
    /// Its command line, if requested.
    pub command_line: Option<String>,
    /// Its effective user id, as the agent sees it.
    pub user: Option<u32>,
    /// Its control group.
    pub cgroup: Cgroup,
    /// Its `OTEL_…` environment.
    pub attributes: Attributes,
    /// Its language runtime, if one was detected.
    pub runtime: Option<Runtime>,
}

/// A language runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Its name, as in `cpython`.
    pub name: &'static str,
    /// Its version.
    pub version: String,
}

impl ProcessMetadata {
    /// Reads it: three small files besides what [`Process::open`] has read.
    ///
    /// A program that was executed a moment ago may not have a command line and an environment yet.
    /// What may not be read is absent.
    ///
    /// # Errors
    ///
    /// When the process has exited or has executed another program meanwhile.
    pub fn read(process: &Process, wanted: MetadataOptions) -> Result<Self, process::Error> {
        let cgroup = permitted(process.cgroup())?.unwrap_or_default();
        let [service_name, list] = if wanted.without_environment {
            [None, None]
        } else {
            let variables = permitted(process.variables([SERVICE_NAME, RESOURCE_ATTRIBUTES]))?;
            variables.unwrap_or_default()
        };
        let line = permitted(process.command_line())?;
        let metadata = Self {
            pid: process.pid(),
            parent: process.parent(),
            comm: process.comm().to_owned(),
            executable: process.executable().to_owned(),
            script: line.as_ref().and_then(|line| process.script(line)),
            command_line: line
                .filter(|_| wanted.command_line)
                .map(|line| line.to_text()),
            user: process.user(),
            cgroup,
            attributes: Attributes::new(service_name.as_deref(), list.as_deref()),
            runtime: None,
        };
        // Parts may be of two programs.
        if process.is_same_program() {
            Ok(metadata)
        } else {
            Err(process::Error::Replaced { pid: metadata.pid })
        }
    }

    /// The last component of the executable's path.
    #[must_use]
    pub fn executable_name(&self) -> String {
        String::from_utf8_lossy(file_name(&self.executable)).into_owned()
    }
}

/// The value; [`None`] if this file may not be read.
fn permitted<T>(read: Result<T, process::Error>) -> Result<Option<T>, process::Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error @ process::Error::NoSuchProcess { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}
