//! What is known of a process by itself.

use std::path::PathBuf;

use super::attributes::{Attributes, RESOURCE_ATTRIBUTES, SERVICE_NAME};
use crate::process::{self, Process, cgroup::Cgroup, file_name};

/// Which facts are read besides those that always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The command line, which may hold secrets.
    pub command_line: bool,
}

/// What is known of a process by itself; read once for each program that it runs.
#[derive(Clone, Debug, Default)]
pub struct ProcessMetadata {
    /// Its id, as the agent sees it.
    pub pid: u32,
    /// The process that started it.
    pub parent: Option<u32>,
    /// The kernel's name of it (`comm`).
    pub command: String,
    /// Path of its executable, as it sees it.
    pub executable: PathBuf,
    /// The script or module that it runs, if it is an interpreter.
    pub script: Option<String>,
    /// Its command line, if that was wanted.
    pub command_line: Option<String>,
    /// The user on whose behalf it acts, as the agent sees it.
    pub user: Option<u32>,
    /// What it belongs to.
    pub cgroup: Cgroup,
    /// What it was told about itself.
    pub attributes: Attributes,
    /// What its program runs on, where it was found out.
    pub runtime: Option<Runtime>,
}

/// What a program runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Its name, as in `cpython`.
    pub name: &'static str,
    /// Its version.
    pub version: String,
}

impl Runtime {
    /// CPython of this version.
    #[must_use]
    pub fn cpython(version: crate::python::version::Version) -> Self {
        Self {
            name: "cpython",
            version: version.to_string(),
        }
    }
}

impl ProcessMetadata {
    /// Reads them: three small files besides what [`Process::open`] has read.
    ///
    /// A program that the kernel has only just started may still be without a command line and
    /// an environment. What may not be read is as if it were not there.
    ///
    /// # Errors
    ///
    /// When the process has gone or has meanwhile started another program.
    pub fn read(process: &Process, wanted: Wanted) -> Result<Self, process::Error> {
        let cgroup = permitted(process.cgroup())?.unwrap_or_default();
        let variables = permitted(process.variables([SERVICE_NAME, RESOURCE_ATTRIBUTES]))?;
        let [service_name, list] = variables.unwrap_or_default();
        let line = permitted(process.command_line())?;
        let facts = Self {
            pid: process.pid(),
            parent: process.parent(),
            command: process.name().to_owned(),
            executable: process.executable().to_owned(),
            script: line
                .as_ref()
                .and_then(|line| line.script(process.executable())),
            command_line: line
                .filter(|_| wanted.command_line)
                .map(|line| line.to_text()),
            user: process.user(),
            cgroup,
            attributes: Attributes::new(service_name.as_deref(), list.as_deref()),
            runtime: None,
        };
        // What was read may be of two programs.
        if process.is_same_program() {
            Ok(facts)
        } else {
            Err(process::Error::Replaced { pid: facts.pid })
        }
    }

    /// The last part of the executable's path.
    #[must_use]
    pub fn executable_name(&self) -> String {
        String::from_utf8_lossy(file_name(&self.executable)).into_owned()
    }
}

/// What was read; [`None`] if only this file may not be read.
fn permitted<T>(read: Result<T, process::Error>) -> Result<Option<T>, process::Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error @ process::Error::NoSuchProcess { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}
