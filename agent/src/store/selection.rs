//! Selection of profiles by service, labels and time.

use std::{collections::BTreeMap, time::SystemTime};

use super::name;
use crate::{profile::Kind, text::printable};

/// A selection of profiles; the default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The service, as in its label or in the names of files.
    pub service: Option<String>,
    /// What a profile must measure.
    pub kind: Option<&'static Kind>,
    /// Labels that a profile must have.
    pub labels: Vec<(String, String)>,
    /// Earliest start of a window.
    pub from: Option<SystemTime>,
    /// End of the time range, exclusive.
    pub to: Option<SystemTime>,
}

impl Selection {
    pub(super) fn has_time(&self, start: SystemTime) -> bool {
        self.from.is_none_or(|from| from <= start) && self.to.is_none_or(|to| start < to)
    }

    /// Whether a file may match, by the service in its name.
    pub(super) fn may_have(&self, service: &str) -> bool {
        self.service.as_ref().is_none_or(|wanted| {
            let wanted = name::service(wanted);
            wanted == service || wanted == name::without_number(service)
        })
    }

    /// Whether a profile matches, by its service.
    pub(super) fn has_service(&self, service: &str) -> bool {
        let wanted = self.service.as_deref();
        wanted.is_none_or(|wanted| wanted == service || wanted == name::service(service))
    }

    /// Whether a profile matches, by all but its kind.
    pub(crate) fn has_series(
        &self,
        start: SystemTime,
        service: &str,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        self.has_time(start) && self.has_service(service) && self.has_labels(labels)
    }

    /// Whether a profile matches, by its kind.
    pub(super) fn has_kind(&self, kind: &Kind) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }

    pub(super) fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(name, value)| {
            let value = printable(value);
            labels.get(name).is_some_and(|known| **known == *value)
        })
    }
}
