//! The configuration of the agent of a host: a file, environment variables and flags.
//!
//! ```text
//! file ────┐
//! AGENT_… ─┼─► Written ─► Config
//! --… ─────┘
//! ```
//!
//! A flag overrides the variable, and that the file. Each key of [`KEYS`] is in all three:
//! `log_level`, `AGENT_LOG_LEVEL`, `--log-level`; their values are written as in the file.
//!
//! Invariants: an accepted configuration is valid as far as it alone shows; an unknown
//! key is an error that suggests the nearest one, an unknown variable a warning; nothing that may be a secret is in `Debug` output
//! or in an error.

mod exporters;
#[cfg(test)]
pub(crate) mod fixtures;
mod http_server;
mod keys;
mod kubernetes;
mod log;
mod nearest;
mod quantities;
mod read;
mod settings;
#[cfg(test)]
mod tests;
mod variables;
mod words;

pub use self::{
    http_server::{HttpServer, SocketPath},
    keys::{KEYS, Key, KeyKind, VARIABLE_PREFIX},
    log::{Log, LogFormat},
    read::{CLUSTER_VARIABLES, Error, Sources},
    settings::Config,
};
