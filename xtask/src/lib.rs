//! The habits of the project as a library: the binary `xtask` is its command line, and
//! `agent/build.rs` shares its discovery of the toolchain.
//!
//! Invariants: the machine is changed only through `packages`, through rustup's components and
//! in the cache directory; `toolchain` and `kernel_half`, which a build script uses, only look.

mod apt;
#[cfg(feature = "cli")]
pub mod bench;
pub mod check;
pub mod cluster;
pub mod consumers;
pub mod cross;
pub mod demo;
pub mod image;
pub mod interpreters;
pub mod kernel_half;
pub mod libraries;
pub mod linker;
mod once;
pub mod package;
pub mod packages;
pub mod paths;
pub mod pip;
pub mod process;
pub mod setup;
pub mod tally;
pub mod toolchain;
pub mod tools;
pub mod unpacked;
pub mod vm;

/// The errors of this library, for its callers.
pub use anyhow;
