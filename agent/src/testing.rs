//! What the tests of several rooms together use; there only with the feature `testing`.
//!
//! Golden tests replay recorded sessions. Invariant: a replay reads no file of the machine that it
//! runs on.

mod examination;
mod replay;

pub use examination::replay_examination;
pub use replay::{HostReplay, replay_capture};

/// Files that processes map.
pub mod binaries {
    pub use crate::binaries::{
        elf::{self, DebugFiles, Elf, GoFunction, GoTable, Shared},
        executables::{self, Bytes, Executable},
        probe_points,
        unwind::{self, Compiled, SharedRules, compile, pack},
    };
}

/// The BPF programs and their maps.
pub mod bpf {
    pub use crate::bpf::{Bpf, LoadOptions, PassMaps, Visited, Visits};
}

/// Commands.
pub mod commands {
    pub use crate::commands::{check_command_line, doctor::examine, summary::Summary};
}

/// Configuration.
pub mod config {
    pub use crate::config::{CLUSTER_VARIABLES, Config, KEYS, Sources};
}

/// The agent of a host.
pub mod daemon {
    pub use crate::daemon::telemetry::{Usage, classic};
}

/// Destinations of profiles.
pub mod export {
    pub use crate::export::{ExporterStatus, Exporters, ProfileBatch};
}

/// Formats of profiles.
pub mod formats {
    pub use crate::formats::{
        EncodeOptions, Format, FunctionNames, Internals, encode, pprof_schema,
    };
}

/// Connections.
pub mod http_client {
    pub use crate::http_client::{Authentication, HttpConfig, SecretSource, TlsConfig};
}

/// Processes from outside.
pub mod process {
    pub use crate::process::{
        Error, Memory, Process, cgroup, file_name, machine::RECORDED_VDSO, maps,
    };
}

/// The model.
pub mod profile {
    pub use crate::profile::*;
}

/// CPython.
pub mod python {
    pub use crate::python::{
        Detector, Error, Interpreter, Version, dwarf, evaluation_loop, gil, inspect, layouts,
        line_table, marked_code, remote, text, variables, versions,
    };
}

/// Sampling sessions.
pub mod session {
    #[cfg(feature = "recorder")]
    pub use crate::session::recorder;
    pub use crate::session::recording;
}

/// Native code → functions and lines.
pub mod symbolize {
    pub use crate::symbolize::elf_symbols;
}

/// Which processes, and what they are called.
pub mod targets {
    pub use crate::targets::{kubernetes, labels};
}

/// Threads of processes.
pub mod threads {
    pub use crate::threads::reason;
}
