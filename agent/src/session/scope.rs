//! Which processes a session samples.

use std::time::Duration;

use super::following::Follow;
use crate::{binaries::executables::MappedExecutables, bpf::Visits, targets::examiner::Finding};

/// What to sample.
#[derive(Debug)]
pub enum Scope {
    /// Some processes.
    Processes {
        /// Each of them once.
        found: Vec<Finding>,
        /// Whether to sample their descendants too.
        children: bool,
        /// How others are found that start later; [`None`] where none is sampled.
        follow: Option<Follow>,
    },
    /// A process that has not run its program yet.
    Unstarted {
        /// Its id.
        pid: u32,
        /// Whether to sample its descendants too.
        children: bool,
    },
    /// Every process of the host, and the kernel's threads.
    Host {
        /// Time after exec until a program is examined if it is not sampled before.
        examine_after: Duration,
    },
}

impl Scope {
    /// These processes, and their descendants where `children` says so.
    #[must_use]
    pub fn of(found: Vec<Finding>, children: bool) -> Self {
        Self::Processes {
            found,
            children,
            follow: None,
        }
    }

    /// And those that start later and are found so.
    #[must_use]
    pub fn following(self, follow: Option<Follow>) -> Self {
        match self {
            Self::Processes {
                found, children, ..
            } => Self::Processes {
                found,
                children,
                follow,
            },
            other => other,
        }
    }

    /// The threads that passes visit.
    pub(super) fn visits(&self, has_passes: bool) -> Visits {
        match self {
            _ if !has_passes => Visits::None,
            Self::Unstarted {
                pid,
                children: false,
            } => Visits::OfProcess(*pid),
            Self::Processes {
                found,
                children: false,
                follow: None,
            } => match &**found {
                [one] => Visits::OfProcess(one.process.pid),
                _ => Visits::OfAll,
            },
            _ => Visits::OfAll,
        }
    }

    /// Whether processes are sampled that are selected when they start.
    pub(super) fn has_later(&self) -> bool {
        matches!(
            self,
            Self::Processes {
                follow: Some(_),
                ..
            }
        )
    }

    /// Whether no process comes to be sampled that is not known when sampling starts.
    pub(super) fn has_known_processes(&self) -> bool {
        matches!(
            self,
            Self::Processes {
                children: false,
                follow: None,
                ..
            }
        )
    }

    /// The processes that were examined, and what they map.
    pub(super) fn mapped(&self) -> impl Iterator<Item = (u32, &MappedExecutables)> {
        let found = match self {
            Self::Processes { found, .. } => &**found,
            Self::Unstarted { .. } | Self::Host { .. } => &[],
        };
        found
            .iter()
            .filter_map(|one| Some((one.process.pid, one.mapped.as_ref()?)))
    }
}
