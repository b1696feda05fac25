//! Large programs that the bench of a host profiles, made once per machine in the cache.
//!
//! Invariant: the name in the cache has a hash of what a program is made from, so that an edit makes
//! a new one.

mod cpp;
mod go;

pub use cpp::program as cpp_program;
pub use go::{Program as GoProgram, programs as go_programs};

use crate::cache::Shelf;

/// Where they are in the cache.
const SHELF: Shelf = Shelf("programs");
