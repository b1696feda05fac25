//! Programs of others that take what the agent gives, for the tests.
//!
//! Invariants: each is made once per machine, in the cache, and none is installed, so that nothing
//! of theirs runs but what a test starts; one that cannot be made is an error that names it.

mod collector;
mod prometheus;
mod speedscope;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::cache::Shelf;

pub use prometheus::Prometheus;

/// Where they are.
const SHELF: Shelf = Shelf("consumers");

/// Makes those that are missing.
///
/// # Errors
///
/// Naming the first that cannot be made.
pub fn ensure_all() -> Result<()> {
    speedscope()?;
    prometheus()?;
    collector()?;
    Ok(())
}

/// An OpenTelemetry Collector with the receiver `otlp` and the exporter `otlp_http`.
///
/// # Errors
///
/// When it is not there and cannot be built.
pub fn collector() -> Result<PathBuf> {
    collector::ensure().context("the tests need an OpenTelemetry Collector")
}

/// Prometheus and its tool.
///
/// # Errors
///
/// When it is not there and cannot be fetched.
pub fn prometheus() -> Result<Prometheus> {
    prometheus::ensure().context("the tests need Prometheus")
}

/// The program of the page that speedscope is, with its importers, in one file.
///
/// # Errors
///
/// When it is not there and cannot be fetched.
pub fn speedscope() -> Result<PathBuf> {
    speedscope::ensure().context("the tests need speedscope")
}
