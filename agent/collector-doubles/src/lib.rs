//! Collectors for tests, as strict as the real ones or stricter: each rejects what any version of its
//! original rejects.
//!
//! The unit tests of the exporters and the end-to-end tests of the agent push to them. They listen on
//! real sockets and panic where a test has to fail.

#![allow(
    clippy::expect_used,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "part of tests, which fail by panicking; the fields of messages are documented by their protocols"
)]

pub mod otlp;
pub mod parca;
pub mod pyroscope;
pub mod rules;
pub mod server;
