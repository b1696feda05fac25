//! Directories of the cache, each made once per machine.
//!
//! Invariants: other processes only see finished directories; one process at a time makes
//! directories of a shelf. The output of the commands that make one is in a log beside it, which
//! an error names.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::paths;
use crate::process::run;

/// The part of the cache for things of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Shelf(pub(crate) &'static str);

/// The paths with which a directory is made.
pub(crate) struct Site {
    /// The directory until it is finished.
    pub(crate) unfinished: PathBuf,
    /// Its path when it is finished.
    pub(crate) finished: PathBuf,
    /// A directory for intermediate files, which is removed.
    pub(crate) scratch: PathBuf,
    log: PathBuf,
}

impl Shelf {
    /// The directory `name`, made by `make` if it is not there.
    pub(crate) fn ensure(
        self,
        name: &str,
        make: impl FnOnce(&Site) -> Result<()>,
    ) -> Result<PathBuf> {
        ensure(&self.directory()?, name, make)
    }

    /// The name of the directory that holds `path`, if it is on this shelf, without the snapshot
    /// of Debian that it may be made from.
    pub(crate) fn name_of(self, path: &Path) -> Option<String> {
        let directory = self.directory().ok()?;
        let name = path.strip_prefix(directory).ok()?.iter().next()?;
        let (name, _) = name
            .to_str()?
            .split_once('@')
            .unwrap_or((name.to_str()?, ""));
        Some(name.to_owned())
    }

    fn directory(self) -> Result<PathBuf> {
        Ok(paths::cache()?.join(self.0))
    }
}

/// The directory `name` in `shelf`, made by `make` if it is not there.
pub(crate) fn ensure(
    shelf: &Path,
    name: &str,
    make: impl FnOnce(&Site) -> Result<()>,
) -> Result<PathBuf> {
    let finished = shelf.join(name);
    if finished.exists() {
        return Ok(finished);
    }
    let site = Site {
        unfinished: shelf.join(format!("{name}.unfinished")),
        scratch: shelf.join(format!("{name}.scratch")),
        log: shelf.join(format!("{name}.log")),
        finished,
    };
    fs::create_dir_all(shelf).with_context(|| format!("cannot make {}", shelf.display()))?;
    let lock = File::create(shelf.join("lock"))?;
    lock.lock()?;
    // The process that held the lock may have made it.
    if !site.finished.exists() {
        println!("making {}, once on this machine", site.finished.display());
        let start = Instant::now();
        site.clear()?;
        fs::create_dir(&site.unfinished)?;
        fs::create_dir(&site.scratch)?;
        File::create(&site.log)?;
        make(&site).with_context(|| format!("see {}", site.log.display()))?;
        fs::rename(&site.unfinished, &site.finished)?;
        site.clear()?;
        println!("made {name} in {} s", start.elapsed().as_secs());
    }
    Ok(site.finished)
}

impl Site {
    /// Runs `command` with its output in the log.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        let log = OpenOptions::new().append(true).open(&self.log)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        run(command)
    }

    /// Downloads the file with this SHA-256.
    pub(crate) fn download(&self, address: &str, sha256: &str, to: &Path) -> Result<()> {
        self.run(
            Command::new("/usr/lib/apt/apt-helper")
                .args(["-o", "APT::Sandbox::User=", "download-file", address])
                .arg(to)
                .arg(format!("SHA256:{sha256}")),
        )
        .with_context(|| format!("cannot download {address} with the SHA-256 {sha256}"))
    }

    /// Extracts an archive into `directory`, without its top-level directory.
    pub(crate) fn extract(&self, archive: &Path, directory: &Path) -> Result<()> {
        self.run(
            Command::new("tar")
                .args(["--extract", "--strip-components=1", "--file"])
                .arg(archive)
                .arg("--directory")
                .arg(directory),
        )
    }

    /// Removes what this attempt or an earlier one has left.
    fn clear(&self) -> Result<()> {
        for directory in [&self.unfinished, &self.scratch] {
            if directory.exists() {
                fs::remove_dir_all(directory)
                    .with_context(|| format!("cannot remove {}", directory.display()))?;
            }
        }
        Ok(())
    }
}

/// Whether [`Site::download`] failed for `file` because of another hash: apt then renames it.
pub(crate) fn has_other_hash(file: &Path) -> bool {
    let mut renamed = file.as_os_str().to_owned();
    renamed.push(".FAILED");
    Path::new(&renamed).exists()
}

/// A hash of all parts (FNV-1a), as a suffix of a name in the cache.
pub(crate) fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let bytes = parts
        .into_iter()
        // A byte that no text has keeps parts apart.
        .flat_map(|part| part.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cache_holds_is_named_after_its_directory() {
        let shelf = Shelf("interpreters");
        let cache = shelf.directory().unwrap();
        let path = cache.join("3.13t/bin/python3.13t");
        assert_eq!(shelf.name_of(&path).as_deref(), Some("3.13t"));
        assert_eq!(Shelf("tools").name_of(&path), None);
        let path = cache.join("3.15-sid@20261030T120000Z/python3.15");
        assert_eq!(shelf.name_of(&path).as_deref(), Some("3.15-sid"));
        assert_eq!(shelf.name_of(Path::new("/usr/bin/python3.11")), None);
    }

    #[test]
    fn other_sources_have_another_hash() {
        assert_eq!(hash([]), "cbf29ce484222325");
        assert_ne!(hash(["a", "bc"]), hash(["ab", "c"]));
        assert_eq!(hash(["a"]), hash(["a"]));
    }
}
