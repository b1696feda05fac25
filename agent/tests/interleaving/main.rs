//! Runs of Python frames replace exactly the evaluation loops in the stacks of gdb, one run per
//! loop.
//!
//! Invariants: the compared threads are stopped; every frame is compared, native ones to the end of
//! gdb's stack and Python ones to the end of the interpreter's.

#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod stack;
