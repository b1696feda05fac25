//! The evaluation loops that runs of Python frames take the place of are those that gdb sees, and
//! each run is in its loop.
//!
//! Invariant: what is compared stands still; every frame counts, native ones down to where gdb ends
//! and Python ones down to the last that the interpreter itself tells of.

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
#[path = "data/scenarios.rs"]
mod scenarios;
#[path = "data/unwinder.rs"]
mod unwinder;

mod interleaving {
    mod compare;
    mod stack;
}
