//! The agent as its users run it: the binary on this kernel, against every interpreter.
//!
//! Invariants: what is expected comes from the workload's source, from the interpreter or from the
//! scheduler, never from an earlier profile; no test asserts how long something takes; nothing is
//! skipped, and without root every test fails.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod end_to_end {
    mod call_tree;
    mod capture;
    mod container;
    mod cpu_seconds;
    mod cpu_split;
    mod deep;
    mod ends;
    mod errors;
    mod folded;
    mod gil_released;
    mod impossible;
    mod machine;
    mod pprof;
    mod programs;
    mod source;
    mod target;
    mod threads;
}
