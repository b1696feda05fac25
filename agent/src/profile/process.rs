//! The processes of a profile.

use std::{path::PathBuf, sync::Arc};

/// A profiled process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id, as the agent sees it; 0 stands for all processes of a service together.
    pub pid: u32,
    /// The id of its parent, where it is known.
    pub parent: Option<u32>,
    /// The kernel's name of it (`comm`), or what stands for it.
    pub name: String,
    /// Path of its executable as it sees it, where it is known.
    pub executable: PathBuf,
    /// Whether it runs Python.
    pub is_python: bool,
    /// What the interpreter is, for example `CPython 3.12.1`; empty without one.
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
    /// Path as the process sees it.
    pub path: PathBuf,
    /// GNU build ID in lower-case hexadecimal, where the file has one.
    pub build_id: Option<String>,
}
