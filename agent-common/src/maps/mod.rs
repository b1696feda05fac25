//! Keys and values of the maps that the BPF programs and the agent use.
//!
//! Invariant: types without behaviour of their own.

mod allocation;
mod code_object;
mod control;
mod lock_wait;
mod mapping;
mod page;
mod process;
mod raise_gaps;
mod raise_window;
mod switch;
mod table;
mod thread;

pub use allocation::{AllocationSettings, AllocatorCode, CodeRange};
pub use code_object::{CachedCode, CodeIdentity, CodeKey};
pub use control::Control;
pub use lock_wait::LockWait;
pub use mapping::Mapping;
pub use page::PageKey;
pub use process::{Children, KERNEL_THREADS, ProcessState, TrackedProcess};
pub use raise_gaps::{ProbeRun, RaiseGaps, RunGaps};
pub use raise_window::{RaiseWindow, RaiseWindows, WEIGHT_UNIT};
pub use switch::{SYSTEM_CALLS, SwitchedThread, WaitClass};
pub use table::{TableLocation, TableState};
pub use thread::{SearchedStates, ThreadState, ThreadStates, TrackedThread};
