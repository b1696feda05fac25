//! Why an output cannot be written.

use std::{io, path::PathBuf};

use crate::formats::Format;

/// Why an output cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Standard output is a terminal and the format is binary.
    #[error(
        "{format} is binary and would garble the terminal: name a file with -o, or add -f folded"
    )]
    Terminal {
        /// The format.
        format: Format,
    },
    /// The path is a folder.
    #[error("'{}' is a folder: name a file in it", path.display())]
    IsFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder of the file does not exist.
    #[error("there is no folder '{}': create it, or name another with -o", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// Nothing can be created in the folder.
    #[error("cannot create a file in '{}' ({source}): name another folder with -o", folder.display())]
    Create {
        /// The folder.
        folder: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The file cannot be opened.
    #[error("cannot open '{}' ({source}): name another file with -o", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The finished profile cannot be written.
    #[error("cannot write '{}' ({source}): this output is lost", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// Two outputs are one file.
    #[error("'{}' is named twice: name another file with -o", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
    },
    /// All default names exist.
    #[error("'{}' and all its numbered names exist: name a file with -o", path.display())]
    NoFreeName {
        /// The first of the names.
        path: PathBuf,
    },
}
