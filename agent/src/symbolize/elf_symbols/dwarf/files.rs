//! The files that debugging information is in.

use crate::binaries::elf::{Elf, Shared};

/// The files that debugging information is in.
#[derive(Clone, Copy)]
pub struct DwarfFiles<'a> {
    pub main: &'a Elf<Shared>,
    /// The supplementary file (`dwz`).
    pub shared: Option<&'a Elf<Shared>>,
}
