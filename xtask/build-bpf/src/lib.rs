//! Builds the BPF programs, the package `agent-ebpf`, for the BPF target.
//!
//! A crate of its own, so that the agent is rebuilt when the way its BPF programs are built
//! changes, and not when any other task of the project does.
//!
//! Invariants: depends on as little as possible; only looks for tools, `cargo xtask setup`
//! installs them.

mod build_script;
pub mod linker;
pub mod paths;
pub mod process;
mod strip;
pub mod toolchain;
mod tools;

pub use build_script::build_script;
pub use tools::{BpfObject, Tools};
