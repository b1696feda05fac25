//! The steps of a sample. The verifier checks each exported function on its own, see the crate's
//! documentation.

mod code_object;
mod gil_holder;
mod native;
mod running_task;
mod stack;
mod thread;
mod thread_name;
mod unfinished;
mod walk;

pub(crate) use gil_holder::gil_holder_thread;
pub(crate) use native::{NATIVE_FRAMES_PER_STEP, begin_native, send_native, walk_native_frames};
pub(crate) use running_task::name_task;
pub(crate) use stack::{FRAMES_PER_RESOLVE, resolve_frames, send_stack};
pub(crate) use thread::{
    STATES_PER_STEP, begin_search, load_cached_state, search_states, track_thread,
};
pub(crate) use thread_name::{begin_name, find_name, send_name};
pub(crate) use unfinished::{is_unfinished, send_unfinished};
pub(crate) use walk::{FRAMES_PER_STEP, begin_walk, continue_walk, walk_frames};
