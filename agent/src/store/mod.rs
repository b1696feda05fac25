//! What the agent of a host has kept in its folder: found, listed and merged again.
//!
//! Files are chosen by the time and the service in their names before one is opened, then by their
//! labels before their stacks are read. One is in memory at a time, and what is merged has a bound.
//!
//! Invariants: nothing is written; no link is followed; a file that makes no sense is left out and
//! named, and costs the others nothing; one that is gone by now, as the agent removes the oldest, is
//! no matter.

mod error;
pub(crate) mod folder;
mod merge;
pub(crate) mod name;
pub(crate) mod rotation;
mod series;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

pub use self::{error::Error, merge::Full, series::Series};
use self::{merge::Merger, series::AllSeries};
use crate::{
    export::{SERVICE_NAME, file::ENDING},
    formats::{PprofFile, PprofHeader, PprofReadError},
    profile::Profile,
    store::folder::{Entry, Folder},
    text::printable,
};

/// Most bytes of a file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Files left out that are named.
const MAX_NAMED: usize = 10;

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
    fn has_time(&self, start: SystemTime) -> bool {
        self.from.is_none_or(|from| from <= start) && self.to.is_none_or(|to| start < to)
    }

    /// Whether a file may be of the service, by its name.
    fn may_have(&self, service: &str) -> bool {
        self.service.as_ref().is_none_or(|wanted| {
            let wanted = name::service(wanted);
            wanted == service || wanted == name::without_number(service)
        })
    }

    /// Whether a file is of the service, by its label.
    fn has_service(&self, service: &str) -> bool {
        let wanted = self.service.as_deref();
        wanted.is_none_or(|wanted| wanted == service || wanted == name::service(service))
    }

    fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(name, value)| {
            let value = printable(value);
            labels.get(name).is_some_and(|known| **known == *value)
        })
    }
}

/// A folder with profiles.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    path: PathBuf,
    /// By time.
    files: Vec<File>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    name: String,
    start: SystemTime,
}

impl File {
    /// A file of which the agent may have chosen the name.
    fn of(entry: Entry) -> Option<Self> {
        let start = name::moment(&entry.name)?;
        Some(Self {
            name: entry.name,
            start,
        })
    }

    /// The service in its name.
    fn service(&self) -> &str {
        let stem = self.name.strip_suffix(ENDING).unwrap_or(&self.name);
        name::service_in(stem).unwrap_or_default()
    }
}

/// Files that were left out.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// The first ones, each with the reason.
    pub named: Vec<(String, NotRead)>,
    /// How many there are.
    pub count: usize,
}

impl LeftOut {
    fn add(&mut self, name: &str, why: NotRead) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push((printable(name).into_owned(), why));
        }
    }
}

/// Why a file was left out.
#[derive(Debug, thiserror::Error)]
pub enum NotRead {
    /// It cannot be read from its disk.
    #[error("it cannot be read: {0}")]
    Disk(#[from] io::Error),
    /// It is no profile.
    #[error(transparent)]
    Format(#[from] PprofReadError),
    /// There is no room for it.
    #[error(transparent)]
    Full(#[from] Full),
}

/// What there is.
#[derive(Debug)]
pub struct Listing {
    /// The series, by service.
    pub series: Vec<Series>,
    /// Windows of further series, of which there are too many.
    pub others: u64,
    /// What is missing in it.
    pub left_out: LeftOut,
}

/// Many profiles as one.
#[derive(Debug)]
pub struct Merged {
    /// The profile.
    pub profile: Profile,
    /// How many it was made of.
    pub files: u64,
    /// When the first of their windows began, and when the last one ended.
    pub times: (SystemTime, SystemTime),
    /// What is missing in it.
    pub left_out: LeftOut,
}

impl Store {
    /// Looks at what there is in a folder.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or there is no profile in it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::Empty { path: path.into() },
            _ => Error::Unreadable {
                path: path.into(),
                source,
            },
        };
        let folder = Folder::open_existing(path).map_err(failed)?;
        let is_profile = |name: &str| name.ends_with(ENDING) && name::moment(name).is_some();
        let entries = folder.entries(is_profile).map_err(failed)?;
        let mut files: Vec<_> = entries.into_iter().filter_map(File::of).collect();
        if files.is_empty() {
            return Err(Error::Empty { path: path.into() });
        }
        files.sort();
        Ok(Self {
            folder,
            path: path.into(),
            files,
        })
    }

    /// The series that are chosen.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn list(&self, selection: &Selection) -> Result<Listing, Error> {
        let mut series = AllSeries::default();
        let left_out = self.visit(selection, |file, _, head| {
            series.add(service(file, &head.labels), head);
            Ok(())
        })?;
        let (series, others) = series.finish();
        if series.is_empty() && left_out.count == 0 {
            return Err(self.no_label(selection));
        }
        Ok(Listing {
            series,
            others,
            left_out,
        })
    }

    /// One profile of all that are chosen.
    ///
    /// # Errors
    ///
    /// When there are none.
    pub fn merge(&self, selection: &Selection) -> Result<Merged, Error> {
        let mut merger = Merger::default();
        let left_out = self.visit(selection, |file, unpacked, head| {
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
                left_out,
            }),
            None if left_out.count == 0 => Err(self.no_label(selection)),
            None => Err(Error::NothingReadable {
                path: self.path.clone(),
                first: left_out.named.into_iter().next(),
            }),
        }
    }

    /// Calls for every file that is chosen, in the order of time.
    fn visit(
        &self,
        selection: &Selection,
        mut visit: impl FnMut(&File, &PprofFile, PprofHeader) -> Result<(), NotRead>,
    ) -> Result<LeftOut, Error> {
        let chosen = self.chosen(selection)?;
        let mut left_out = LeftOut::default();
        for file in chosen {
            let visited = self.unpack(file).and_then(|unpacked| {
                let Some(unpacked) = unpacked else {
                    return Ok(());
                };
                let head = unpacked.head()?;
                let is_chosen = selection.has_service(&service(file, &head.labels))
                    && selection.has_labels(&head.labels);
                if is_chosen {
                    visit(file, &unpacked, head)?;
                }
                Ok(())
            });
            if let Err(why) = visited {
                left_out.add(&file.name, why);
            }
        }
        Ok(left_out)
    }

    /// The files that are chosen as far as their names tell.
    fn chosen(&self, selection: &Selection) -> Result<Vec<&File>, Error> {
        let files = self.files.iter();
        let of_service: Vec<_> = files
            .filter(|file| selection.may_have(file.service()))
            .collect();
        let (Some(first), Some(last)) = (of_service.first(), of_service.last()) else {
            return Err(Error::NoService {
                service: selection.service.clone().unwrap_or_default(),
                path: self.path.clone(),
                known: self.services(),
            });
        };
        let times = (first.start, last.start);
        let mut chosen = of_service;
        chosen.retain(|file| selection.has_time(file.start));
        if chosen.is_empty() {
            return Err(Error::NoWindow { times });
        }
        Ok(chosen)
    }

    /// A file's content; [`None`] when it is gone.
    fn unpack(&self, file: &File) -> Result<Option<PprofFile>, NotRead> {
        match self.folder.read(&file.name, MAX_FILE_BYTES) {
            Ok(bytes) => Ok(Some(PprofFile::new(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The services, as they are in names.
    fn services(&self) -> Vec<String> {
        let named: BTreeSet<_> = self.files.iter().map(File::service).collect();
        let is_numbered = |service: &str| {
            let without = name::without_number(service);
            without != service && named.contains(without)
        };
        let services = named.iter().filter(|service| !is_numbered(service));
        services.map(|&service| service.to_owned()).collect()
    }

    fn no_label(&self, selection: &Selection) -> Error {
        let mut values = BTreeMap::<String, BTreeSet<String>>::new();
        let all = Selection {
            labels: Vec::new(),
            ..selection.clone()
        };
        // What can be chosen from, of what else was chosen.
        let looked = self.visit(&all, |_, _, head| {
            for (name, _) in &selection.labels {
                let value = head.labels.get(name).cloned();
                let values = values.entry(name.clone()).or_default();
                if values.len() <= error::MAX_LISTED {
                    values.extend(value);
                }
            }
            Ok(())
        });
        match looked {
            Err(error) => error,
            Ok(_) if selection.labels.is_empty() => Error::NoService {
                service: selection.service.clone().unwrap_or_default(),
                path: self.path.clone(),
                known: self.services(),
            },
            Ok(_) => Error::NoLabel {
                wanted: selection.labels.clone(),
                known: values
                    .into_iter()
                    .map(|(name, values)| (name, values.into_iter().collect()))
                    .collect(),
            },
        }
    }
}

/// The service of a file: its label, or what its name says.
fn service(file: &File, labels: &BTreeMap<String, String>) -> String {
    match labels.get(SERVICE_NAME) {
        Some(service) => service.clone(),
        None => name::without_number(file.service()).to_owned(),
    }
}
