//! The processes of a profile.

use std::{path::PathBuf, sync::Arc};

/// A profiled process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id in the agent's PID namespace; 0 stands for all processes of a service together.
    pub pid: u32,
    /// The id of its parent, where it is known.
    pub parent: Option<u32>,
    /// The kernel's name of it (`comm`), or a substitute such as a service's name.
    pub name: String,
    /// Path of its executable in its mount namespace; empty where it is not known.
    pub executable: PathBuf,
    /// Whether it runs Python.
    pub is_python: bool,
    /// Implementation and version of the interpreter, for example `CPython 3.12.1`; empty without one.
    pub runtime: String,
    /// Files that are mapped executable, the executable first.
    pub images: Arc<[Image]>,
}

/// A file that is mapped executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Offset of `start` in the file, in bytes.
    pub file_offset: u64,
    /// Path in the process's mount namespace.
    pub path: PathBuf,
    /// GNU build ID in lower-case hexadecimal, where the file has one.
    pub build_id: Option<String>,
}
