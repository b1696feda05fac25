//! The model of a profile: what aggregation builds and every encoder reads.
//!
//! Invariants: every index is one of its table; a location has lines or code, or both.

mod amount;
mod executable;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
mod import_system;
mod indices;
mod internals;
mod kind;
pub mod kinds;
mod labels;
mod line_numbers;
mod location;
mod losses;
mod memory;
mod model;
mod periods;
mod process;
mod restacked;
mod timeline;
mod type_names;
mod unwind_stats;
mod wait;

pub use self::{
    amount::{Amount, ValueSource},
    executable::{Executable, ExecutableKind},
    indices::{
        ExecutableId, FunctionId, LocationId, ProcessIndex, StackId, TaskIndex, ThreadIndex,
    },
    kind::{Kind, PagesOf, Period, Unit},
    kinds::exceptions::RecordedExceptions,
    kinds::{CPU, ForeignTypes, foreign},
    labels::SERVICE_NAME_LABEL,
    line_numbers::LineNumbers,
    location::{CodeAddress, FrameKind, Function, Line, Location},
    losses::{
        Counter, FilteredOut, Losses, UnsymbolizedLosses, UnsymbolizedReason, UnwindLosses,
        WaitTotals,
    },
    memory::Memory,
    model::{Profile, Sample, Sampled, Stack, Thread},
    periods::Periods,
    process::{Image, Process},
    timeline::{TimedSample, Timeline},
    type_names::{SampleType, TypeNaming},
    unwind_stats::{LastFrame, UnwindStats},
    wait::{
        GC_MARKER, IDLE_MARKER, LeafMarkers, Wait, blocks_marker, is_of_native_frames,
        is_state_marker, lock_marker, raises_marker, releases_marker, stops_marker, thread_name,
    },
};
