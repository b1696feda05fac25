//! Values of maps that only the BPF programs use.
//!
//! Invariant: nothing here uses a map; `crate::current` gives access to the values of the
//! processor that runs.

mod code_cache;
mod last_fault;
mod location;
mod registers;
mod sampler;
mod thread_name;

pub(crate) use code_cache::{Memo, MemoEntry};
pub(crate) use last_fault::Absent;
pub(crate) use location::Remembered;
pub(crate) use registers::Registers;
pub(crate) use sampler::{NativeSampler, Sampler};
pub(crate) use thread_name::{Naming, TEXT_MASK};
