//! Reads a folder of profiles.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    error::{self, StoreError},
    folder::{Folder, FolderEntry},
    listing::Listing,
    merge::Merger,
    name::{self, SUFFIX},
    selection::Selection,
    series::SeriesTable,
    skipped::{SkipReason, SkippedFiles},
};
use crate::{
    formats::{PprofFile, PprofHeader},
    profile::{CPU, Profile, SERVICE_NAME_LABEL},
};

/// Largest file that is read, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 20;

/// A folder with profiles.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    path: PathBuf,
    /// Sorted by time.
    files: Vec<ProfileFile>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProfileFile {
    name: String,
    start: SystemTime,
}

impl ProfileFile {
    /// [`None`] if the name is not that of a profile.
    fn new(entry: FolderEntry) -> Option<Self> {
        let start = name::moment(&entry.name)?;
        Some(Self {
            name: entry.name,
            start,
        })
    }

    /// The service in its name.
    fn service(&self) -> &str {
        let stem = self.name.strip_suffix(SUFFIX).unwrap_or(&self.name);
        name::service_in(stem).unwrap_or_default()
    }
}

/// Profiles merged into one.
#[derive(Debug)]
pub struct Merged {
    /// The profile.
    pub profile: Profile,
    /// Number of profiles merged.
    pub files: u64,
    /// Start of the first window and end of the last one.
    pub times: (SystemTime, SystemTime),
    /// Files that are missing in it.
    pub skipped: SkippedFiles,
}

impl Store {
    /// Opens a folder and lists its files.
    ///
    /// # Errors
    ///
    /// When it cannot be read or has no profiles.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => StoreError::Empty { path: path.into() },
            _ => StoreError::Unreadable {
                path: path.into(),
                source,
            },
        };
        let folder = Folder::open_existing(path).map_err(failed)?;
        let is_profile = |name: &str| name.ends_with(SUFFIX) && name::moment(name).is_some();
        let entries = folder.entries(is_profile).map_err(failed)?;
        let mut files: Vec<_> = entries.into_iter().filter_map(ProfileFile::new).collect();
        if files.is_empty() {
            return Err(StoreError::Empty { path: path.into() });
        }
        files.sort();
        Ok(Self {
            folder,
            path: path.into(),
            files,
        })
    }

    /// The selected series.
    ///
    /// # Errors
    ///
    /// When nothing is selected.
    pub fn list(&self, selection: &Selection) -> Result<Listing, StoreError> {
        let mut series = SeriesTable::default();
        let skipped = self.visit(selection, |file, _, head| {
            series.add(service(file, &head.labels), head);
            Ok(())
        })?;
        let (series, others) = series.finish();
        if series.is_empty() && skipped.count == 0 {
            return Err(self.no_label(selection));
        }
        Ok(Listing {
            series,
            others,
            skipped,
        })
    }

    /// Merges the selected profiles: those of CPU time unless another kind is selected.
    ///
    /// # Errors
    ///
    /// When nothing is selected.
    pub fn merge(&self, selection: &Selection) -> Result<Merged, StoreError> {
        let selection = &Selection {
            kind: selection.kind.or(Some(&CPU)),
            ..selection.clone()
        };
        let mut merger = Merger::default();
        let skipped = self.visit(selection, |file, unpacked, head| {
            let service = service(file, &head.labels);
            merger.add(&service, &unpacked.profile()?)?;
            Ok(())
        })?;
        let files = merger.files();
        match merger.finish() {
            Some((profile, times)) => Ok(Merged {
                profile,
                files,
                times,
                skipped,
            }),
            None if skipped.count == 0 => Err(self.no_label(selection)),
            None => Err(StoreError::NothingReadable {
                path: self.path.clone(),
                first: skipped.named.into_iter().next(),
            }),
        }
    }

    /// Calls `visit` for every selected file, in the order of time.
    fn visit(
        &self,
        selection: &Selection,
        mut visit: impl FnMut(&ProfileFile, &PprofFile, PprofHeader) -> Result<(), SkipReason>,
    ) -> Result<SkippedFiles, StoreError> {
        let selected = self.select(selection)?;
        let mut skipped = SkippedFiles::default();
        for file in selected {
            let visited = self.unpack(file).and_then(|unpacked| {
                let Some(unpacked) = unpacked else {
                    return Ok(());
                };
                let head = unpacked.head()?;
                let is_selected = selection.has_service(&service(file, &head.labels))
                    && selection.has_kind(head.kind)
                    && selection.has_labels(&head.labels);
                if is_selected {
                    visit(file, &unpacked, head)?;
                }
                Ok(())
            });
            if let Err(reason) = visited {
                skipped.add(&file.name, reason);
            }
        }
        Ok(skipped)
    }

    /// The files whose names match the selection.
    fn select(&self, selection: &Selection) -> Result<Vec<&ProfileFile>, StoreError> {
        let files = self.files.iter();
        let of_service: Vec<_> = files
            .filter(|file| selection.may_have(file.service()))
            .collect();
        let (Some(first), Some(last)) = (of_service.first(), of_service.last()) else {
            return Err(StoreError::NoService {
                service: selection.service.clone().unwrap_or_default(),
                path: self.path.clone(),
                known: self.services(),
            });
        };
        let times = (first.start, last.start);
        let mut selected = of_service;
        selected.retain(|file| selection.has_time(file.start));
        if selected.is_empty() {
            return Err(StoreError::NoWindow { times });
        }
        Ok(selected)
    }

    /// Reads a file; [`None`] if it was removed meanwhile.
    fn unpack(&self, file: &ProfileFile) -> Result<Option<PprofFile>, SkipReason> {
        match self.folder.read(&file.name, MAX_FILE_BYTES) {
            Ok(bytes) => Ok(Some(PprofFile::new(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The services in the names of files.
    fn services(&self) -> Vec<String> {
        let named: BTreeSet<_> = self.files.iter().map(ProfileFile::service).collect();
        let is_numbered = |service: &str| {
            let without = name::without_number(service);
            without != service && named.contains(without)
        };
        let services = named.iter().filter(|service| !is_numbered(service));
        services.map(|&service| service.to_owned()).collect()
    }

    fn no_label(&self, selection: &Selection) -> StoreError {
        let mut values = BTreeMap::<String, BTreeSet<String>>::new();
        let mut kinds = BTreeSet::new();
        let all = Selection {
            kind: None,
            labels: Vec::new(),
            ..selection.clone()
        };
        // The values of the labels in the rest of the selection.
        let visited = self.visit(&all, |_, _, head| {
            kinds.insert(head.kind.name);
            for (name, _) in &selection.labels {
                let value = head.labels.get(name).cloned();
                let values = values.entry(name.clone()).or_default();
                if values.len() <= error::MAX_LISTED {
                    values.extend(value);
                }
            }
            Ok(())
        });
        let missing = selection.kind.filter(|kind| !kinds.contains(kind.name));
        if let (Ok(_), Some(kind), false) = (&visited, missing, kinds.is_empty()) {
            let known = kinds.into_iter().map(str::to_owned).collect();
            return StoreError::NoKind { kind, known };
        }
        match visited {
            Err(error) => error,
            Ok(_) if selection.labels.is_empty() => StoreError::NoService {
                service: selection.service.clone().unwrap_or_default(),
                path: self.path.clone(),
                known: self.services(),
            },
            Ok(_) => StoreError::NoLabel {
                wanted: selection.labels.clone(),
                known: values
                    .into_iter()
                    .map(|(name, values)| (name, values.into_iter().collect()))
                    .collect(),
            },
        }
    }
}

/// The service of a file: its label, else the service in its name.
fn service(file: &ProfileFile, labels: &BTreeMap<String, String>) -> String {
    match labels.get(SERVICE_NAME_LABEL) {
        Some(service) => service.clone(),
        None => name::without_number(file.service()).to_owned(),
    }
}
