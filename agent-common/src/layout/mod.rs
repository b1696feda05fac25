//! Where the fields of an interpreter's and of the kernel's structures are.
//!
//! The BPF programs get offsets and capabilities, never a version to compare: what a version
//! does not have is [`ABSENT`]. All offsets are bytes from the start of the named structure.

mod kernel;
mod python;
mod resident;
mod running_task;

pub use crate::record::LineTableFormat;
pub use kernel::KernelLayout;
pub use python::{
    ABSENT, CodeLayout, ExceptionLayout, FrameLayout, GilStyle, InstanceStyle, InstructionStyle,
    InterpreterLayout, KeysStyle, Layout, ObjectLayout, RunStyle, TextLayout, TextStyle,
    ThreadLayout,
};
pub use resident::{MAX_COUNTER_BYTES, MAX_COUNTER_DISTANCE, ResidentLayout};
pub use running_task::RunningTaskLayout;
