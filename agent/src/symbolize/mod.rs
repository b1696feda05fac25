//! Frames → functions and lines.
//!
//! Python's frames are put into words by [`PythonSymbolizer`], from what the kernel half has sent; those
//! of native code by [`elf_symbols`], from the file that has it, or [`vdso`]; those of the kernel by [`kernel`], and
//! those of code that was made at run time by [`perf_map`], if its maker tells of it.
//!
//! Invariant: what is not known is data, with the reason for it, so that it can be counted.

mod demangle;
pub mod elf_symbols;
mod frame_symbolizer;
pub mod kernel;
mod native_symbolizer;
pub mod perf_map;
mod python;
mod symbolized;

#[cfg(test)]
pub use self::symbolized::{NativeFunction, unsymbolized};
pub use self::{
    frame_symbolizer::FrameSymbolizer,
    native_symbolizer::NativeSymbolizer,
    python::PythonSymbolizer,
    symbolized::{SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame},
};
