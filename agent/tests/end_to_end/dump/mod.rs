//! The stacks of all threads, now.

mod output;
mod stacks;
mod truth;
mod waits;
