//! What an exporter is handed, and what a destination encodes it to.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use bytes::Bytes;

use crate::{
    profile::{Profile, SERVICE_NAME_LABEL},
    store::name,
};

/// Service of a batch whose labels have none.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// The profile of one series in one window.
///
/// Cheap to clone: all destinations share the profile and its encoding.
#[derive(Clone)]
pub struct ProfileBatch {
    /// Labels of the series; [`SERVICE_NAME_LABEL`] should be among them.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The profile as gzipped pprof.
    pub pprof: Arc<[u8]>,
    /// The same profile, for destinations with another format.
    pub profile: Arc<Profile>,
}

impl ProfileBatch {
    /// Start of the window.
    #[must_use]
    pub fn start(&self) -> SystemTime {
        self.profile.start
    }

    /// Name of the service; never empty.
    #[must_use]
    pub fn service(&self) -> &str {
        let name = self.labels.get(SERVICE_NAME_LABEL).map(|name| name.trim());
        name.filter(|name| !name.is_empty())
            .unwrap_or(UNKNOWN_SERVICE)
    }

    /// Name of its payload.
    pub(super) fn name(&self) -> String {
        name::of_window(self.start(), self.service(), self.profile.kind)
    }

    /// Approximate size in memory, in bytes.
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

/// A batch encoded for one destination: the body of one request, or the content of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    /// Start of the window, then the service; a valid file name.
    pub(super) name: String,
    /// The encoded bytes.
    pub(super) body: Bytes,
}
