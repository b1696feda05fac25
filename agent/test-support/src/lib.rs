//! Shared helpers of the test programs in `agent/tests`: programs that are started and stopped, and
//! comparison of stacks.
//!
//! Invariants: every helper panics where a test has to fail; data is read from
//! `agent/tests/data`, where the programs and recordings of the tests are.

#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::panic,
    clippy::unwrap_used,
    reason = "part of tests, which fail by panicking"
)]

#[cfg(target_arch = "x86_64")]
pub mod agreement;
pub mod child;
pub mod containerfile;
pub mod control_groups;
#[cfg(target_arch = "x86_64")]
pub mod debugger;
pub mod fuse;
pub mod go;
pub mod image;
pub mod mapped;
pub mod scenarios;
#[cfg(target_arch = "x86_64")]
pub mod unwinder;
