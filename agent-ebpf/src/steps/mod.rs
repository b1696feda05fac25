//! The steps of a sample. Each exported function is verified on its own, see the crate's
//! documentation.

mod describe;
mod name;
mod native;
mod outcome;
mod settle;
mod thread;
mod walk;

pub(crate) use describe::describe;
pub(crate) use name::{begin_name, find_name, send_name};
pub(crate) use native::{NATIVE_FRAMES_PER_STEP, begin_native, send_native, walk_native_frames};
pub(crate) use outcome::{NativeOutcome, Outcome};
pub(crate) use settle::{FRAMES_PER_SETTLE, send_stack, settle_frames};
pub(crate) use thread::{THREADS_PER_STEP, begin_search, find_thread, meet_thread, recall_thread};
pub(crate) use walk::{FRAMES_PER_STEP, begin_walk, go_on, walk_frames};
