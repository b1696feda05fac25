//! Symbolizes frames: frames → functions, files and lines.
//!
//! [`PythonSymbolizer`] symbolizes Python frames with the code objects that the BPF programs sent;
//! [`NativeSymbolizer`] native frames with the symbols and debugging information of their file
//! ([`elf_symbols`]), kernel frames with `/proc/kallsyms` ([`kernel`]), and JIT code with the perf map
//! of its process ([`perf_map`]) or what its compiler registers for debuggers (`jit_interface`), which are read while
//! the process runs (`jit_symbolizer`).
//!
//! Invariant: a frame that is not symbolized is data, with the reason, so that it can be counted.

mod budget;
mod demangle;
pub mod elf_symbols;
mod file_symbolizer;
#[cfg(test)]
pub(crate) mod fixtures;
mod frame_symbolizer;
mod haste;
mod jit_interface;
mod jit_symbolizer;
pub mod kernel;
mod live_kernel;
mod lookup_job;
mod native_results;
mod native_symbolizer;
pub mod perf_map;
mod python;
mod shorten;
mod symbolized;
mod this_machine;

#[cfg(feature = "fuzzing")]
pub use self::demangle::{demangle, go_name, stub_name};
#[cfg(test)]
pub use self::symbolized::unsymbolized;
pub use self::{
    budget::{CpuShare, CpuShares},
    file_symbolizer::LookupTotals,
    frame_symbolizer::FrameSymbolizer,
    haste::Haste,
    native_symbolizer::NativeSymbolizer,
    python::PythonSymbolizer,
    symbolized::{NativeFunction, SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame},
};
