//! Requests of clients, as the main loop receives them.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::{formats::FunctionNames, profile::Kind, workers::Quarantined};

/// A request to the main loop.
#[derive(Debug)]
pub enum Request {
    /// The metrics.
    Metrics(oneshot::Sender<String>),
    /// What is in quarantine.
    Quarantine(oneshot::Sender<Vec<Quarantined>>),
    /// A health check.
    Health(oneshot::Sender<()>),
    /// A profile.
    Profile(ProfileRequest),
}

/// A request for a profile.
#[derive(Debug)]
pub struct ProfileRequest {
    /// Its duration from now on.
    pub duration: Duration,
    /// What to measure.
    pub kind: &'static Kind,
    /// How functions are named.
    pub function_names: FunctionNames,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only processes with these labels.
    pub labels: Vec<(String, String)>,
    /// Receives the profile.
    pub reply: oneshot::Sender<Result<Vec<u8>, NoSuchTarget>>,
}

/// No profiled process is what a client asks for; why, in a sentence for it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoSuchTarget(pub String);
