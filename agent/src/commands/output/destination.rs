//! Where an output goes, as the user says it.

use std::path::PathBuf;

/// Where to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The default: a file in the current folder, named after the process.
    Unnamed,
    /// This file.
    File(PathBuf),
    /// Standard output.
    StandardOutput,
}

impl Destination {
    /// Whether each of several profiles can have a file of its own.
    #[must_use]
    pub fn can_have_several_files(&self) -> bool {
        match self {
            Self::Unnamed => true,
            Self::File(path) => !path.starts_with("/dev") && !path.starts_with("/proc"),
            Self::StandardOutput => false,
        }
    }
}

impl From<PathBuf> for Destination {
    fn from(path: PathBuf) -> Self {
        match path.to_str() {
            Some("-" | "/dev/stdout") => Self::StandardOutput,
            _ => Self::File(path),
        }
    }
}
