//! Frames → functions and lines.
//!
//! Python's frames are put into words by [`Symbolizer`], from what the kernel half has sent.

mod python;

pub use python::Symbolizer;
