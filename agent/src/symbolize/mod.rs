//! Frames → functions and lines.
//!
//! Python's frames are put into words by [`Symbolizer`], from what the kernel half has sent; those
//! of native code by [`native`], from the file that has it.
//!
//! Invariant: what is not known is data, with the reason for it, so that it can be counted.

mod name;
pub mod native;
mod python;

pub use python::Symbolizer;
