//! Native stacks, walked by the code of the BPF programs, equal gdb's.
//!
//! Invariant: processes are stopped while stacks are compared; every frame is, down to gdb's last.

#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod programs;
