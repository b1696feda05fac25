//! The model of a profile: what aggregation builds and every encoder reads.
//!
//! Invariants: every index is one of its table; a location has lines or code, or both.

mod executable;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
mod indices;
mod location;
mod losses;
mod model;
mod process;
mod unwinding;

pub use self::{
    executable::{Executable, ExecutableKind},
    indices::{ExecutableId, FunctionId, LocationId, ProcessIndex, StackId, ThreadIndex},
    location::{Code, FrameKind, Function, Line, Location},
    losses::{LeftOut, Losses, Number, UnnamedLosses, UnsymbolizedReason, UnwindLosses},
    model::{Profile, Sample, Stack, Thread},
    process::{Image, Process},
    unwinding::{Reached, Unwinding},
};
