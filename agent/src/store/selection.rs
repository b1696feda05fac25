//! Which profiles of a folder are chosen.

use std::{collections::BTreeMap, time::SystemTime};

use super::name;
use crate::text::printable;

/// What is wanted of a folder; nothing is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The service, as its label has it or as it is in names of files.
    pub service: Option<String>,
    /// Labels that are to be there, with these values.
    pub labels: Vec<(String, String)>,
    /// Only windows that begin then or later.
    pub from: Option<SystemTime>,
    /// Only windows that begin earlier.
    pub to: Option<SystemTime>,
}

impl Selection {
    pub(super) fn has_time(&self, start: SystemTime) -> bool {
        self.from.is_none_or(|from| from <= start) && self.to.is_none_or(|to| start < to)
    }

    /// Whether a file may be of the service, by its name.
    pub(super) fn may_have(&self, service: &str) -> bool {
        self.service.as_ref().is_none_or(|wanted| {
            let wanted = name::service(wanted);
            wanted == service || wanted == name::without_number(service)
        })
    }

    /// Whether a file is of the service, by its label.
    pub(super) fn has_service(&self, service: &str) -> bool {
        let wanted = self.service.as_deref();
        wanted.is_none_or(|wanted| wanted == service || wanted == name::service(service))
    }

    pub(super) fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(name, value)| {
            let value = printable(value);
            labels.get(name).is_some_and(|known| **known == *value)
        })
    }
}
