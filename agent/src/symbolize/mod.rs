//! Frames → functions and lines.
//!
//! Python's frames are put into words by [`PythonSymbolizer`], from what the kernel half has sent; those
//! of native code by [`native`], from the file that has it, or [`vdso`]; those of the kernel by [`kernel`], and
//! those of code that was made at run time by [`perf_map`], if its maker tells of it.
//!
//! Invariant: what is not known is data, with the reason for it, so that it can be counted.

mod frames;
pub mod kernel;
mod name;
pub mod native;
pub mod perf_map;
mod python;
mod resolve;

pub use self::{
    frames::{FrameSymbolizer, NativeSymbolizer},
    python::PythonSymbolizer,
    resolve::{Resolve, unknown},
};
