//! Native stacks, walked by the code of the BPF programs, equal gdb's.
//!
//! Invariant: processes are stopped while stacks are compared; every frame is, down to gdb's last.

#![cfg(target_arch = "x86_64")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "data/agreement.rs"]
mod agreement;
#[path = "data/debugger.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod debugger;
#[path = "data/unwinder.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod unwinder;

mod unwinding {
    mod compare;
    mod programs;
}
