//! What an exporter is handed, and what a destination encodes it to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use bytes::Bytes;

use crate::{
    formats::{EncodeOptions, Format, FunctionNames, encode},
    profile::{Profile, SERVICE_NAME_LABEL, TypeNaming},
    store::name,
};

/// Service of a batch whose labels have none.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// The profile of one series in one window.
///
/// Cheap to clone: all destinations share the profile and its encodings.
#[derive(Clone)]
pub struct ProfileBatch {
    /// Labels of the series; [`SERVICE_NAME_LABEL`] should be among them.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The profile.
    pub profile: Arc<Profile>,
    /// Whether samples have their thread as a label.
    pub(super) thread_labels: bool,
    /// The profile as gzipped pprof.
    pub(super) pprofs: Arc<Pprofs>,
}

/// Encodings as gzipped pprof, by [`FunctionNames`] and [`TypeNaming`].
pub(super) type Pprofs = [[OnceLock<Arc<[u8]>>; TypeNaming::COUNT]; FunctionNames::ALL.len()];

/// The names that a pprof has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PprofNames {
    /// How functions are named.
    pub functions: FunctionNames,
    /// Whose names the kind has.
    pub types: TypeNaming,
}

impl From<FunctionNames> for PprofNames {
    fn from(functions: FunctionNames) -> Self {
        Self {
            functions,
            types: TypeNaming::default(),
        }
    }
}

/// How batches are encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOptions {
    /// Whether samples have their thread as a label.
    pub thread_labels: bool,
    /// Names of the pprofs that are wanted: they are encoded in advance.
    pub pprof_names: BTreeSet<PprofNames>,
}

impl ProfileBatch {
    /// The batch of a profile, whose labels are those of its series.
    ///
    /// # Errors
    ///
    /// When the profile cannot be encoded.
    pub fn new(profile: Profile, options: &BatchOptions) -> Result<Self, Unencodable> {
        let batch = Self {
            labels: Arc::new(profile.labels.clone()),
            profile: Arc::new(profile),
            thread_labels: options.thread_labels,
            pprofs: Arc::default(),
        };
        for names in &options.pprof_names {
            batch.pprof(*names)?;
        }
        Ok(batch)
    }

    /// The profile as gzipped pprof, which is encoded once for all destinations with equal names.
    ///
    /// # Errors
    ///
    /// When the profile cannot be encoded.
    pub fn pprof(&self, names: impl Into<PprofNames>) -> Result<Arc<[u8]>, Unencodable> {
        let mut names = names.into();
        if !self.profile.kind.has_names_of(names.types) {
            names.types = TypeNaming::default();
        }
        let pprof = &self.pprofs[names.functions as usize][names.types as usize];
        if let Some(pprof) = pprof.get() {
            return Ok(Arc::clone(pprof));
        }
        let encoded = self.encode(&self.profile, names)?;
        Ok(Arc::clone(pprof.get_or_init(|| encoded.into())))
    }

    /// A part of the profile as gzipped pprof.
    pub(super) fn encode(&self, part: &Profile, names: PprofNames) -> Result<Vec<u8>, Unencodable> {
        let options = EncodeOptions {
            threads: false,
            without_labels: !self.thread_labels,
            function_names: names.functions,
            type_naming: names.types,
            ..EncodeOptions::default()
        };
        let mut pprof = Vec::new();
        encode(part, Format::Pprof, options, &mut pprof).map_err(|_| Unencodable)?;
        Ok(pprof)
    }

    /// Size of what has been encoded so far, in bytes.
    #[must_use]
    pub fn pprof_bytes(&self) -> usize {
        let encoded = self.pprofs.iter().flatten().filter_map(OnceLock::get);
        encoded.map(|pprof| pprof.len()).sum()
    }

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
        self.pprof_bytes()
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

/// A batch that the destination's format cannot express.
#[derive(Debug, thiserror::Error)]
#[error("the profile cannot be encoded")]
pub struct Unencodable;
