//! End-to-end tests: the agent's binary on this kernel, with real interpreters.
//!
//! Invariants: expected results come from the workload's source, from the interpreter or from the
//! scheduler, never from an earlier profile; no test asserts how long something takes; nothing is
//! skipped, and without root every test fails.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod abilities;
mod allocations;
mod announced;
mod at_pass;
mod bursts;
mod call_tree;
mod capture;
mod chart;
mod closed_pipe;
mod container;
mod cookbook;
mod copy_on_write;
mod cpu_seconds;
mod cpu_split;
mod dashboard;
mod deep;
mod diff;
mod doctor;
mod dump;
mod embedders;
mod ends;
mod errors;
mod exceptions;
mod executables;
mod executed;
mod faults;
mod filters;
mod folded;
mod followed;
mod free_threaded;
mod fuse;
mod garbage;
mod gil;
mod gil_released;
mod go_pprof;
mod greenlets;

mod growth;
mod host;
mod impossible;
mod in_use;
mod inner_interpreters;
mod internals;
mod jit;
mod kept;
mod locks;
mod lost_events;
mod machine;
mod many_threads;
mod mostly_native;
mod native;
mod opentelemetry;
mod outputs;
mod packages;
mod page_faults;
mod pages;
mod pods;
mod pprof;
mod program;
mod programs;
mod prometheus;
mod pushed;
mod running_tasks;
mod schedstat;
mod selected;
mod source;
mod speedscope;
mod stopped_threads;
mod strict;
mod target;
mod task_time;
mod tasks;
mod terminal;
mod threads;
mod top;
mod traced;
mod turns;
mod unwind_rate;
mod visits;
mod waiting;
mod whole;
mod zoo;
