//! Runs of Python frames replace exactly the evaluation loops that gdb sees, each run its own loop.
//!
//! Invariants: the compared threads are stopped; every frame is compared, native ones to the end of
//! gdb's stack and Python ones to the end of the interpreter's.

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
#[path = "data/scenarios.rs"]
mod scenarios;
#[path = "data/unwinder.rs"]
mod unwinder;

mod interleaving {
    mod compare;
    mod stack;
}
