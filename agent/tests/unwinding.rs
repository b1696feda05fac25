//! Native stacks, walked as the kernel half walks them, are those that gdb sees.
//!
//! Invariant: what is compared stands still; every frame counts, down to where gdb ends.

#![cfg(target_arch = "x86_64")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "data/agreement.rs"]
mod agreement;
#[path = "data/child.rs"]
mod child;
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
