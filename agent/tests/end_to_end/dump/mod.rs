//! The stacks of all threads, now.

mod core;
mod locals;
mod output;
mod outside;
mod repeated;
mod stacks;
mod truth;
mod waits;
