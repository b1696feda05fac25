//! What the caller hands over, and what a destination makes of it.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use bytes::Bytes;

use crate::{
    profile::{Profile, SERVICE_NAME_LABEL},
    store::name,
};

/// Service of a batch that does not say which.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// A series in one reporting window.
///
/// Cheap to clone: every destination gets one, and none has a profile of its own.
#[derive(Clone)]
pub struct ProfileBatch {
    /// What tells the series from others; [`SERVICE_NAME_LABEL`] should be among them.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The profile as gzipped pprof: one encoding for all destinations that take it.
    pub pprof: Arc<[u8]>,
    /// The same profile, for destinations that have a format of their own.
    pub profile: Arc<Profile>,
}

impl ProfileBatch {
    /// When the window began.
    #[must_use]
    pub fn start(&self) -> SystemTime {
        self.profile.start
    }

    /// The service, never empty.
    #[must_use]
    pub fn service(&self) -> &str {
        let name = self.labels.get(SERVICE_NAME_LABEL).map(|name| name.trim());
        name.filter(|name| !name.is_empty())
            .unwrap_or(UNKNOWN_SERVICE)
    }

    /// Name of its payload: the window's start and the service, fit to be a file's name.
    pub(super) fn name(&self) -> String {
        name::of_window(self.start(), self.service())
    }

    /// Roughly how much memory it keeps, in bytes.
    #[must_use]
    pub(super) fn size_bytes(&self) -> usize {
        let profile = &*self.profile;
        let names = profile.functions.iter();
        let names: usize = names.map(|one| one.name.len() + one.file.len()).sum();
        let frames: usize = profile.stacks.iter().map(|stack| stack.len()).sum();
        self.pprof.len()
            + names
            + frames * 4
            + profile.functions.len() * 64
            + profile.locations.len() * 48
            + (profile.samples.len() + profile.stacks.len()) * 16
            + profile.threads.len() * 48
    }
}

/// What is sent in one request, or written as one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    /// What it is called: the time of its window, then its service; fit to be a file's name.
    pub(super) name: String,
    /// The bytes that the destination takes.
    pub(super) body: Bytes,
}
