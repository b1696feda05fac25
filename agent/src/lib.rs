//! The user half of agent: loads the kernel half, tells it what to look at, and turns what it
//! sends into profiles.
//!
//! Data flows one way, and a room knows nothing of the next:
//!
//! ```text
//! kernel ─► decode ─► symbolize ─► aggregate ─► encode ─► export
//!    ▲
//!    └── discover ◄── python, unwind ◄── elf ◄── process ◄── launch
//! ```
//!
//! [`cli`] and [`config`] say what to do; [`labels`] says what a process is called and whether it is
//! to be profiled, with names that [`kubernetes`] asks for; [`listen`] and [`telemetry`] tell how the
//! agent of a host is doing; [`doctor`] looks at a process as a capture would and says what is in the
//! way of it; [`kept`] reads again what was exported to a folder.
//!
//! Invariants: [`run`] alone wires the rooms; [`kernel`] alone uses aya; [`http`] and [`listen`]
//! alone open sockets; what comes from another process, from a file or from the kernel is untrusted
//! and bounded; an expected race (a process gone, a record cut short) is counted, not an error.

pub mod aggregate;
pub mod cli;
pub mod code;
#[cfg(test)]
#[allow(
    dead_code,
    reason = "the tests of the whole agent want some of it alone"
)]
#[path = "../tests/collectors/mod.rs"]
mod collectors;
pub mod config;
pub mod decode;
pub mod discover;
pub mod doctor;
pub mod elf;
pub mod encode;
pub mod export;
pub mod generations;
pub mod http;
pub mod kept;
pub mod kernel;
pub mod kubernetes;
pub mod labels;
pub mod launch;
pub mod listen;
pub mod process;
pub mod profile;
pub mod python;
pub mod record;
pub mod report;
pub mod run;
pub mod symbolize;
pub mod telemetry;
pub mod unwind;
