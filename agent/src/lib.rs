//! The agent: loads the BPF programs, fills the maps that they read, and turns their records into
//! profiles.
//!
//! Each room uses those below it, never those above, and no two files use each other:
//!
//! ```text
//! commands      one file per command, what a person reads
//! daemon        the agent of a host: windows, targets, HTTP server, telemetry
//! session       one sampling session: load, drain, end
//! config        file, environment, flags → one validated configuration
//! export        one file per destination; queue, spool, retry
//! store         the folder of profiles as data
//! formats       pprof, folded, SVG
//! aggregate     samples → profiles of a window
//! threads       passes over all threads: what each of them waits for
//! bpf           load, attach, ring buffer, maps; the only user of aya
//! targets       which processes, and what they are called
//! symbolize     addresses and code objects → names and lines
//! python        find, identify and read CPython
//! binaries      ELF files: symbols, unwind tables
//! process       one process from outside
//! profile       the model
//! workers       threads for work on bytes that others control
//! http_client, text, cache   what anyone may use
//! ```
//!
//! Invariants: [`session`] alone connects the stages; [`bpf`] alone uses aya; [`http_client`] and the
//! HTTP server of [`daemon`] alone open sockets; what comes from another process, from a file or from
//! the kernel is untrusted and bounded; an expected race (a process gone, a truncated record) is
//! counted, not an error.

#![allow(
    unreachable_pub,
    reason = "modules are closed to other crates; the feature `testing` opens some of their items"
)]

mod aggregate;
mod binaries;
mod bpf;
mod cache;
mod commands;
mod config;
mod daemon;
mod export;
mod formats;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http_client;
mod process;
mod profile;
mod python;
mod session;
mod store;
mod symbolize;
mod targets;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod threads;
mod workers;

pub use commands::main;
