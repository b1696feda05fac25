//! Profiles that a person names: files of any tool, and folders.
//!
//! A folder is one that `agent run` has filled, of which the selected profiles are merged, or another one with
//! pprof files in it. Files are untrusted: what is read of one, and what all are together, is bounded.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    formats::{PprofFile, PprofProfile, PprofReadError},
    profile::{Kind, Profile, SERVICE_NAME_LABEL},
    store::{Merged, Merger, Selection, SkipReason, SkippedFiles, Store, StoreError},
};

/// Extensions of pprof files, in a folder.
const EXTENSIONS: [&str; 5] = [".pb.gz", ".pb", ".pprof", ".prof", ".pprof.gz"];

/// Most files of a folder.
const MAX_FILES: usize = 10_000;

/// Profiles that were read, merged into one.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The profile.
    pub(super) profile: Profile,
    /// Number of profiles merged.
    pub(super) files: u64,
    /// Start of the first one and end of the last one; [`None`] if it is not known.
    pub(super) times: Option<(SystemTime, SystemTime)>,
    /// Files that are missing in it.
    pub(super) skipped: SkippedFiles,
    /// The types of values that a file of another tool has, and the index of the one that is shown.
    pub(super) types: Option<(Vec<String>, usize)>,
}

impl From<Merged> for Loaded {
    fn from(merged: Merged) -> Self {
        Self {
            profile: merged.profile,
            files: merged.files,
            times: Some(merged.times),
            skipped: merged.skipped,
            types: None,
        }
    }
}

/// Reads files and folders: the selected profiles and, where files have several types of values, those of this
/// type.
///
/// # Errors
///
/// One sentence that says what to do: when one cannot be read, none is selected, or they are of several events.
pub(super) fn load(
    paths: &[PathBuf],
    selection: &Selection,
    sample_type: Option<&str>,
) -> Result<Loaded> {
    let mut loader = Loader {
        selection,
        sample_type,
        loaded: None,
        merger: None,
        left_out: None,
        skipped: SkippedFiles::default(),
    };
    for path in paths {
        loader.add(path)?;
    }
    loader.finish()
}

/// Why a profile is not one of the selected ones.
enum LeftOut {
    Kind(PathBuf, &'static Kind),
    Series(PathBuf),
}

struct Loader<'a> {
    selection: &'a Selection,
    sample_type: Option<&'a str>,
    /// The first profile; with `merger` all of them but for the profile itself.
    loaded: Option<Loaded>,
    /// All profiles, from the second one.
    merger: Option<Merger>,
    /// The first profile that is not selected.
    left_out: Option<LeftOut>,
    skipped: SkippedFiles,
}

impl Loader<'_> {
    fn add(&mut self, path: &Path) -> Result<()> {
        let named = || format!("cannot read '{}'", path.display());
        let metadata = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
                "there is no '{}': name a pprof file, or a folder of profiles",
                path.display()
            ),
            metadata => metadata.with_context(named)?,
        };
        if metadata.is_dir() {
            return self.add_folder(path);
        }
        let bytes = read_file(path).with_context(named)?;
        let read = self
            .read(bytes)
            .map_err(|(start, error)| explained(path, &start, error))?;
        self.add_selected(path, read)
    }

    /// Adds the profiles of a folder.
    fn add_folder(&mut self, path: &Path) -> Result<()> {
        match Store::open(path) {
            Ok(store) => return self.merge(path, store.merge(self.selection)?.into()),
            Err(StoreError::Empty { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let files = pprof_files(path)
            .with_context(|| format!("cannot read the folder '{}'", path.display()))?;
        let mut has_any = false;
        for file in files {
            let read = read_file(&file)
                .map_err(SkipReason::Disk)
                .and_then(|bytes| self.read(bytes).map_err(|(_, error)| error.into()));
            match read {
                Ok(read) => {
                    has_any = true;
                    self.add_selected(&file, read)?;
                }
                Err(reason) => self.skipped.add(&file.to_string_lossy(), reason),
            }
        }
        if !has_any {
            bail!(
                "there are no profiles in '{}': name a pprof file, or a folder with files that end in {}{}",
                path.display(),
                EXTENSIONS[0],
                for_example(&self.skipped)
            );
        }
        Ok(())
    }

    /// The profile of a file, of the type that is chosen, or of that which the chosen event has for its name.
    /// An error comes with how the file begins.
    fn read(&self, bytes: Vec<u8>) -> Result<PprofProfile, (Vec<u8>, PprofReadError)> {
        let start = bytes.iter().take(2).copied().collect::<Vec<_>>();
        let read = || {
            let file = PprofFile::of_any_tool(bytes)?;
            let read = file.any_profile(self.sample_type)?;
            let Some(kind) = self.selection.kind else {
                return Ok(read);
            };
            let is_it = read.profile.kind.name == kind.name;
            if is_it
                || self.sample_type.is_some()
                || !read.sample_types.iter().any(|of| of == kind.name)
            {
                return Ok(read);
            }
            file.any_profile(Some(kind.name))
        };
        read().map_err(|error| (start, error))
    }

    fn add_selected(&mut self, path: &Path, read: PprofProfile) -> Result<()> {
        let profile = read.profile;
        let wanted = self.selection.kind;
        let left_out = if wanted.is_some_and(|kind| kind.name != profile.kind.name) {
            Some(LeftOut::Kind(path.to_owned(), profile.kind))
        } else {
            let service = profile.labels.get(SERVICE_NAME_LABEL);
            let service = service.map_or("", String::as_str);
            let is_selected = self
                .selection
                .has_series(profile.start, service, &profile.labels);
            (!is_selected).then(|| LeftOut::Series(path.to_owned()))
        };
        if let Some(left_out) = left_out {
            self.left_out.get_or_insert(left_out);
            return Ok(());
        }
        let has_time = profile.start != SystemTime::UNIX_EPOCH;
        let end = profile.start.checked_add(profile.duration);
        self.merge(
            path,
            Loaded {
                files: 1,
                times: has_time.then(|| (profile.start, end.unwrap_or(profile.start))),
                skipped: SkippedFiles::default(),
                types: (profile.kind.is_foreign() || self.sample_type.is_some())
                    .then_some((read.sample_types, read.sample_type)),
                profile,
            },
        )
    }

    fn merge(&mut self, path: &Path, other: Loaded) -> Result<()> {
        self.skipped.extend(other.skipped);
        let Some(first) = &mut self.loaded else {
            self.loaded = Some(Loaded {
                skipped: SkippedFiles::default(),
                ..other
            });
            return Ok(());
        };
        if first.profile.kind != other.profile.kind {
            bail!(
                "the profiles are of two events, {} and {}: choose one with --event, or with --sample-type",
                type_text(first.profile.kind),
                type_text(other.profile.kind)
            );
        }
        let too_large = || format!("'{}' cannot be added", path.display());
        let merger = match &mut self.merger {
            Some(merger) => merger,
            merger => {
                let merger = merger.insert(Merger::default());
                merger
                    .add_processes(&first.profile)
                    .with_context(too_large)?;
                merger
            }
        };
        merger
            .add_processes(&other.profile)
            .with_context(too_large)?;
        first.files += other.files;
        first.times = match (first.times, other.times) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        Ok(())
    }

    fn finish(self) -> Result<Loaded> {
        let Some(mut loaded) = self.loaded else {
            match self.left_out {
                Some(LeftOut::Kind(path, kind)) => bail!(
                    "'{}' is a profile of {}, not of {}",
                    path.display(),
                    type_text(kind),
                    self.selection.kind.map_or("", |kind| kind.name)
                ),
                Some(LeftOut::Series(path)) => bail!(
                    "nothing is selected: '{}' has another service, other labels or another time",
                    path.display()
                ),
                None => bail!("no profile is named: name a pprof file, or a folder of profiles"),
            }
        };
        if let Some((profile, _)) = self.merger.and_then(Merger::finish) {
            loaded.profile = profile;
        }
        loaded.skipped = self.skipped;
        Ok(loaded)
    }
}

/// The name of a kind, or of the type of values of another tool.
fn type_text(kind: &Kind) -> &str {
    kind.names.sample_types[1].name.trim()
}

fn for_example(skipped: &SkippedFiles) -> String {
    let first = skipped.named.first();
    first.map_or_else(String::new, |(name, why)| {
        format!(" ({name} is none: {why})")
    })
}

/// Reads a file, of bounded size.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let limit = PprofFile::MAX_BYTES_OF_ANY_TOOL;
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The pprof files of a folder, by name.
fn pprof_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_pprof = EXTENSIONS.iter().any(|extension| name.ends_with(extension));
        // Not a link, nor a pipe that nobody writes to.
        if is_pprof && !name.starts_with('.') && entry.file_type()?.is_file() {
            files.push(entry.path());
        }
        if files.len() == MAX_FILES {
            break;
        }
    }
    files.sort();
    Ok(files)
}

/// The error of a file that begins with these bytes, and what to do.
fn explained(path: &Path, start: &[u8], error: PprofReadError) -> anyhow::Error {
    let path = path.display();
    let is_compressed = start == [0x1f, 0x8b];
    match error {
        _ if start.is_empty() => {
            anyhow::anyhow!("'{path}' is empty: record the profile again, or copy it again")
        }
        PprofReadError::Gzip(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            anyhow::anyhow!("'{path}' is truncated: copy it again, or record the profile again")
        }
        PprofReadError::NoType { .. } => {
            anyhow::anyhow!("'{path}' cannot be shown: {error} with --sample-type")
        }
        PprofReadError::Negative => anyhow::anyhow!(
            "'{path}' cannot be shown: {error}; compare the two with --diff instead"
        ),
        PprofReadError::TooLarge { .. } => anyhow::anyhow!(
            "'{path}' is too large, {error}: record a shorter time, or fewer processes"
        ),
        PprofReadError::Foreign | PprofReadError::Malformed { what: "bytes" } if !is_compressed => {
            anyhow::anyhow!(
                "'{path}' is not a pprof file, or not a complete one: name a file that agent has written in the \
                 format pprof, or one of another profiler; no other format can be read"
            )
        }
        PprofReadError::Foreign => {
            anyhow::anyhow!("'{path}' is a gzip file without a profile: name a pprof file")
        }
        error => {
            anyhow::anyhow!("'{path}' is not a valid pprof file, {error}: record the profile again")
        }
    }
}
