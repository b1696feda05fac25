//! Reference tools: the programs that read what the agent writes or receive what it sends, for the
//! tests.
//!
//! Invariants: each is made once per machine, in the cache, and none is installed, so that only what
//! a test starts runs; one that cannot be made is an error with its name.

mod collector;
mod manifests;
mod prometheus;
mod prometheus_operator;
mod speedscope;
mod trace_engine;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::cache::Shelf;

pub use manifests::Renderers;
pub use prometheus::Prometheus;

/// The tools in the cache.
const SHELF: Shelf = Shelf("consumers");

/// Makes the tools that are missing.
///
/// # Errors
///
/// Naming the first that cannot be made.
pub fn ensure_all() -> Result<()> {
    speedscope()?;
    trace_engine()?;
    prometheus()?;
    collector()?;
    renderers()?;
    prometheus_operator()?;
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

/// Prometheus and promtool.
///
/// # Errors
///
/// When it is not there and cannot be fetched.
pub fn prometheus() -> Result<Prometheus> {
    prometheus::ensure().context("the tests need Prometheus")
}

/// The directory with the definitions of the Prometheus Operator's types.
///
/// # Errors
///
/// When it is not there and cannot be fetched.
pub fn prometheus_operator() -> Result<PathBuf> {
    prometheus_operator::ensure().context("the tests need types of the Prometheus Operator")
}

/// Kustomize and Helm.
///
/// # Errors
///
/// When they are not there and cannot be built.
pub fn renderers() -> Result<Renderers> {
    manifests::ensure().context("the tests need kustomize and helm")
}

/// The directory of the package with the trace engine of Chromium's developer tools.
///
/// # Errors
///
/// When it is not there and cannot be fetched.
pub fn trace_engine() -> Result<PathBuf> {
    trace_engine::ensure().context("the tests need Chromium's trace engine")
}

/// The JavaScript file of speedscope, with its importers.
///
/// # Errors
///
/// When it is not there and cannot be fetched.
pub fn speedscope() -> Result<PathBuf> {
    speedscope::ensure().context("the tests need speedscope")
}
