//! What is in quarantine, as JSON: for `agent doctor` and for people.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::workers::Quarantined;

/// Path of the list.
pub const PATH: &str = "/quarantine";

/// Most subjects that are listed.
const MAX_LISTED: usize = 100;

/// What is left out for some minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineList {
    /// How many subjects are.
    pub count: usize,
    /// Some of them, the last ones first.
    pub subjects: Vec<QuarantinedSubject>,
}

/// A file, a process or a file system that is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedSubject {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
    /// For how long it has been, in seconds.
    pub seconds: u64,
}

impl QuarantineList {
    pub(super) fn new(mut quarantined: Vec<Quarantined>) -> Self {
        quarantined.sort_by(|one, other| {
            let order = |it: &Quarantined| (Reverse(it.since), it.name.clone());
            order(one).cmp(&order(other))
        });
        let subject = |it: &Quarantined| QuarantinedSubject {
            name: it.name.clone(),
            reason: it.reason.to_owned(),
            seconds: it.since.elapsed().as_secs(),
        };
        Self {
            count: quarantined.len(),
            subjects: quarantined.iter().take(MAX_LISTED).map(subject).collect(),
        }
    }
}
