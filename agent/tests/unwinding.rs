//! Native stacks, walked as the kernel half walks them, are those that gdb sees.
//!
//! Invariant: what is compared stands still; every frame counts, down to where gdb ends.

#![cfg(target_arch = "x86_64")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "data/debugger.rs"]
mod debugger;
#[path = "data/unwinder.rs"]
mod unwinder;

mod unwinding {
    mod compare;
    mod programs;
}
