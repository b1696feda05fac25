//! Whether `agent dump` works where captures do not.

use crate::bpf::{Requirement, Unmet};

/// What it shows where no BPF programs may be loaded.
pub(super) const WITHOUT_PROGRAMS: &str = "shows Python frames of the threads that do not run";

/// Whether it does without the BPF programs: for want of capabilities, and of nothing that is checked before.
pub(super) fn lacks_capabilities(requirements: &[Requirement]) -> bool {
    let first = requirements.iter().find_map(|one| one.met.as_ref().err());
    matches!(first, Some(Unmet::Capabilities(_)))
}
