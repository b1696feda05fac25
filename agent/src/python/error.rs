//! Why a process cannot be profiled as Python.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::{
    inspect::{UnsupportedInterpreter, UnsupportedReason},
    versions::supported_range,
};
use crate::process;

/// Why a process cannot be profiled as Python; each message says what was found.
#[derive(Debug, Error)]
pub enum Error {
    /// The process could not be read.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// It runs another program.
    #[error(
        "process {pid} runs {}, which is not Python (no CPython in any of its {files} mapped \
         files)",
        executable.display(),
    )]
    NotPython {
        /// PID.
        pid: u32,
        /// Its executable.
        executable: PathBuf,
        /// Number of files that it has mapped executable.
        files: usize,
    },
    /// Files that could be the interpreter could not be read.
    #[error(
        "cannot determine whether process {pid} ({}) runs Python: {unread} of its {files} mapped \
         files could not be read, for example: {first}{}",
        executable.display(),
        if first.is_denied() { "; run as root" } else { "" }
    )]
    Unreadable {
        /// PID.
        pid: u32,
        /// Its executable.
        executable: PathBuf,
        /// Number of files that it has mapped executable.
        files: usize,
        /// Number of them that could not be read.
        unread: usize,
        /// Why the first of them could not be read.
        first: process::OpenError,
    },
    /// It runs an unsupported Python.
    #[error(
        "process {pid} runs {} ({}), which is not supported; {} {}",
        Described(found),
        image.display(),
        supported_range(),
        Hint(found)
    )]
    Unsupported {
        /// PID.
        pid: u32,
        /// The file that contains the interpreter.
        image: PathBuf,
        /// Version, build options and the reason.
        found: UnsupportedInterpreter,
    },
    /// It runs Python, but the data of the interpreter is not mapped at the expected address.
    #[error(
        "process {pid} has CPython in {}, but no writable memory at the address of its data; if \
         the process has just been started, try again",
        image.display()
    )]
    NotLoaded {
        /// PID.
        pid: u32,
        /// The file that contains the interpreter.
        image: PathBuf,
    },
    /// It is a 32-bit program.
    #[error(
        "process {pid} runs {}, which is not a 64-bit program; 64-bit CPython is supported",
        image.display()
    )]
    Not64Bit {
        /// PID.
        pid: u32,
        /// Its executable.
        image: PathBuf,
    },
}

impl Error {
    /// The process runs Python in `image` of a kind that is not supported.
    pub(super) fn unsupported(pid: u32, image: &Path, found: UnsupportedInterpreter) -> Self {
        Self::Unsupported {
            pid,
            image: image.to_owned(),
            found,
        }
    }
}

/// Displays version and kind of build.
struct Described<'a>(&'a UnsupportedInterpreter);

impl fmt::Display for Described<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnsupportedInterpreter {
            version, reason, ..
        } = self.0;
        formatter.write_str(match reason {
            UnsupportedReason::FreeThreaded => "a free-threaded build of ",
            UnsupportedReason::Debug => "a debug build of ",
            UnsupportedReason::Preview => "a preview of ",
            UnsupportedReason::RuntimeSize { .. } => "an unusual build of ",
            UnsupportedReason::Version
            | UnsupportedReason::NewVersion
            | UnsupportedReason::Head
            | UnsupportedReason::SwitchedOff => "",
        })?;
        match version {
            Some(version) => write!(formatter, "Python {version}"),
            None => formatter.write_str("Python of an unknown version"),
        }
    }
}

/// Displays the end of the sentence about what is supported.
struct Hint<'a>(&'a UnsupportedInterpreter);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.reason {
            UnsupportedReason::Version => formatter.write_str("are"),
            UnsupportedReason::NewVersion => write!(formatter, "are; {SYMBOLS}"),
            UnsupportedReason::FreeThreaded => formatter.write_str("with the GIL are"),
            UnsupportedReason::Debug => write!(formatter, "are in release builds; {SYMBOLS}"),
            UnsupportedReason::Preview => write!(
                formatter,
                "are from the first release candidate on; {SYMBOLS}"
            ),
            UnsupportedReason::RuntimeSize { bytes } => write!(
                formatter,
                "are, but none has a _PyRuntime of {bytes} bytes; {SYMBOLS}"
            ),
            UnsupportedReason::Head => formatter
                .write_str("are, but the list of interpreters could not be located in this one"),
            UnsupportedReason::SwitchedOff => {
                formatter.write_str("are, but all sources of its layout are disabled")
            }
        }
    }
}

/// Advice for interpreters without a table.
const SYMBOLS: &str = "with its debug symbols it is too: install them (packages end in -dbg, \
                       -dbgsym or -debuginfo)";

#[cfg(test)]
mod tests {
    use super::Error;
    use crate::{
        process::OpenError,
        python::{
            inspect::{Flavour, UnsupportedInterpreter, UnsupportedReason},
            version::Version,
        },
    };
    use std::{
        io,
        path::{Path, PathBuf},
    };

    #[test]
    fn messages_are_sentences() {
        let not_python = Error::NotPython {
            pid: 12,
            executable: PathBuf::from("/usr/bin/bash"),
            files: 7,
        };
        assert_eq!(
            not_python.to_string(),
            "process 12 runs /usr/bin/bash, which is not Python (no CPython in any of its 7 \
             mapped files)"
        );
        let unreadable = |errno: i32| Error::Unreadable {
            pid: 12,
            executable: PathBuf::from("/usr/bin/bash"),
            files: 7,
            unread: 2,
            first: OpenError::Open {
                path: PathBuf::from("/lib/libc.so.6"),
                source: io::Error::from_raw_os_error(errno),
            },
        };
        assert_eq!(
            unreadable(13).to_string(),
            "cannot determine whether process 12 (/usr/bin/bash) runs Python: 2 of its 7 mapped \
             files could not be read, for example: cannot open /lib/libc.so.6: Permission denied \
             (os error 13); run as root"
        );
        assert!(unreadable(2).to_string().ends_with("(os error 2)"));
        let unsupported = |literal: &str, reason| {
            let found = UnsupportedInterpreter {
                version: Version::from_literal(literal),
                flavour: Flavour::default(),
                reason,
                rejected_sources: Vec::new(),
            };
            Error::unsupported(12, Path::new("/opt/python"), found).to_string()
        };
        assert_eq!(
            unsupported("3.5.10", UnsupportedReason::Version),
            "process 12 runs Python 3.5.10 (/opt/python), which is not supported; CPython 2.7 and \
             3.6 to 3.15 are"
        );
        assert_eq!(
            unsupported("3.13.0", UnsupportedReason::FreeThreaded),
            "process 12 runs a free-threaded build of Python 3.13.0 (/opt/python), which is not \
             supported; CPython 2.7 and 3.6 to 3.15 with the GIL are"
        );
        assert_eq!(
            unsupported("", UnsupportedReason::RuntimeSize { bytes: 5 }),
            "process 12 runs an unusual build of Python of an unknown version (/opt/python), \
             which is not supported; CPython 2.7 and 3.6 to 3.15 are, but none has a _PyRuntime of \
             5 bytes; with its debug symbols it is too: install them (packages end in -dbg, -dbgsym \
             or -debuginfo)"
        );
    }
}
