//! The stacks of all threads, now.

mod locals;
mod output;
mod outside;
mod stacks;
mod truth;
mod waits;
