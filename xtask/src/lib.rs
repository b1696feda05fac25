//! What the commands of `cargo xtask` and the agent's tests share.
//!
//! Invariant: the machine is changed only through `packages`, through rustup's components and in
//! the cache directory.

mod cache;
pub mod cluster;
pub mod consumers;
pub mod debian;
pub mod image;
pub mod interpreters;
pub mod libraries;
pub mod package;
pub mod packages;
pub mod paths;
pub mod pip;
pub mod process;
pub mod vm;
