//! A thread that a visit has found in another state than before.

use agent_common::visit::{ThreadDetails, ThreadVisit};

use crate::bpf::Visit;

/// A thread whose stack is to be read.
pub(super) struct Changed {
    pub(super) visit: ThreadVisit,
    pub(super) details: ThreadDetails,
    /// Addresses of kernel frames, as bytes.
    pub(super) kernel: Vec<u8>,
}

impl Changed {
    pub(super) fn of(visit: &Visit<'_>) -> Option<Self> {
        let (details, kernel) = visit.details?;
        Some(Self {
            visit: visit.head,
            details,
            kernel: kernel.to_vec(),
        })
    }
}
