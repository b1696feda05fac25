//! What the agent of a host is told: one file, and for each of its keys a flag and a variable.
//!
//! ```text
//! file ─┐
//! AGENT_… ─┼─► Written ─► Config
//! --… ─┘
//! ```
//!
//! Of a key that is given more than once the flag counts, then the variable, then the file. Keys of
//! [`keys::KEYS`] are those of the file; the flag of `log_level` is `--log-level`, its variable
//! `AGENT_LOG_LEVEL`, and their values are what would stand in the file.
//!
//! Invariants: a configuration that was taken can be carried out as far as it alone tells; a key
//! that is not known is an error; nothing that may be a secret is in `Debug` output or in an error.

mod exporters;
mod keys;
mod kubernetes;
mod quantities;
mod read;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

pub use keys::KEYS;
pub use read::{CLUSTER_VARIABLES, Error, Sources};

use crate::{
    export,
    targets::{
        kubernetes::Config as Kubernetes,
        labels::{Selector, relabel::Rules},
    },
};

/// What the agent of a host does.
#[derive(Clone, Debug)]
pub struct Config {
    /// Samples per second of CPU time, in hertz.
    pub rate: u32,
    /// Most CPU time that the agent uses itself, as a part of one processor.
    pub max_cpu: f64,
    /// Most memory that the agent uses itself, in bytes.
    pub max_memory: u64,
    /// Time that one profile covers.
    pub window: Duration,
    /// Whether stacks have native and kernel frames.
    pub native: bool,
    /// Whether samples have their thread as a label.
    pub threads: bool,
    /// What is profiled.
    pub selector: Selector,
    /// How processes are labelled.
    pub labels: Labels,
    /// Who is asked what pods are called.
    pub kubernetes: Kubernetes,
    /// Where profiles go.
    pub exporters: Vec<export::ExporterConfig>,
    /// Where metrics, health and profiles can be asked for, if anywhere.
    pub listen: Option<SocketAddr>,
    /// What is told of what goes on.
    pub log: Log,
    /// How long the last profiles may take to be delivered at the end.
    pub shutdown_timeout: Duration,
}

/// How processes are labelled.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// What all have.
    pub fixed: BTreeMap<String, String>,
    /// Whether each process has its own.
    pub per_process: bool,
    /// What is done with them.
    pub rules: Rules,
    /// Whether rules see command lines, which may hold secrets.
    pub command_lines: bool,
    /// What Kubernetes calls this machine.
    pub node: Option<String>,
    /// Where the files of the host are: its root, as the agent sees it.
    pub host_root: PathBuf,
}

/// What is told of what goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How much: `error`, `warn`, `info`, `debug`, `trace`, also by part of the program.
    pub level: String,
    /// How.
    pub format: LogFormat,
}

/// How it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// A line of JSON.
    Json,
}
