//! Where the profiles come from: files, and folders of profiles.

use std::{fs::File, io::Read as _, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::{
    formats::PprofFile,
    profile::Profile,
    store::{MAX_FILE_BYTES, Selection, Store},
};

/// The profile in a file, or the selected profiles of a folder, merged.
///
/// # Errors
///
/// One sentence: when there is none that can be read, or it is not what is selected.
pub(super) fn read(path: &Path, selection: &Selection) -> Result<Profile> {
    let named = || format!("cannot read '{}'", path.display());
    let file = File::open(path).with_context(named)?;
    let metadata = file.metadata().with_context(named)?;
    if metadata.is_dir() {
        return Ok(Store::open(path)?.merge(selection)?.profile);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(named)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        bail!(
            "'{}' has more than {} MiB: it is not a profile of the agent",
            path.display(),
            MAX_FILE_BYTES >> 20
        );
    }
    let profile = PprofFile::new(&bytes)
        .and_then(|file| file.profile())
        .with_context(|| format!("'{}' cannot be compared", path.display()))?;
    if let Some(kind) = selection.kind.filter(|kind| *kind != profile.kind) {
        bail!(
            "'{}' is a profile of {}, not of {}",
            path.display(),
            profile.kind.name,
            kind.name
        );
    }
    Ok(profile)
}
