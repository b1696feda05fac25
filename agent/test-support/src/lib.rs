//! What several test programs of `agent/tests` share: the programs that they start and stop, and
//! the stacks that they compare.
//!
//! Invariants: everything here panics where a test has to fail; data is read from
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
pub mod go;
pub mod image;
pub mod mapped;
pub mod scenarios;
#[cfg(target_arch = "x86_64")]
pub mod unwinder;
