//! What the tests of several rooms together use; there only with the feature `testing`.

/// Files that processes map.
pub mod binaries {
    pub use crate::binaries::{
        elf::{self, DebugFiles, Elf, GoFunction, GoTable},
        executables::{self, Bytes, Executable},
        unwind::{self, Compiled, Rules, compile, pack},
    };
}

/// Commands.
pub mod commands {
    pub use crate::commands::doctor::examine;
}

/// Configuration.
pub mod config {
    pub use crate::config::CLUSTER_VARIABLES;
}

/// Formats of profiles.
pub mod formats {
    pub use crate::formats::{EncodeOptions, Format, encode, pprof_schema};
}

/// Connections.
pub mod http_client {
    pub use crate::http_client::{Authentication, HttpConfig, SecretSource, TlsConfig};
}

/// Processes from outside.
pub mod process {
    pub use crate::process::{Error, Process, cgroup, file_name, maps};
}

/// The model.
pub mod profile {
    pub use crate::profile::*;
}

/// CPython.
pub mod python {
    pub use crate::python::{
        Detector, Error, Interpreter, Version, detect, dwarf, evaluation_loop, inspect, layouts,
        line_table, remote, text, versions,
    };
}

/// Native code → functions and lines.
pub mod symbolize {
    pub use crate::symbolize::elf_symbols;
}

/// Which processes, and what they are called.
pub mod targets {
    pub use crate::targets::{kubernetes, labels};
}
