//! Why a job has no result.

use std::time::Duration;

/// Why a job has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It did not end in its time and was abandoned.
    #[error("{subject} was given up after {} s", .limit.as_secs())]
    TimedOut {
        /// What the job was about.
        subject: String,
        /// Its time.
        limit: Duration,
    },
    /// An earlier job about the subject exceeded its budget.
    #[error("{subject} is in quarantine: work on it took too long before")]
    Quarantined {
        /// What the job is about.
        subject: String,
    },
    /// Too many jobs are waiting, or all threads were given up.
    #[error("too much is waiting for the agent's worker threads")]
    Overloaded,
    /// It panicked: a defect of the agent.
    #[error("work on {subject} failed: this is a defect of the agent")]
    Panicked {
        /// What the job was about.
        subject: String,
    },
}
