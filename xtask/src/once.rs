//! Makes a directory of the cache once per machine.
//!
//! Invariants: it is only ever seen whole, and only one process makes any of its shelf at a time.
//! What its making says is kept in a log beside it, which an error names.

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

/// Where something is made.
pub(crate) struct Site {
    /// What becomes the directory.
    pub(crate) unfinished: PathBuf,
    /// What the directory will be called.
    pub(crate) finished: PathBuf,
    /// For what is not needed when it is made.
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
        let directory = self.directory()?;
        let finished = directory.join(name);
        if finished.exists() {
            return Ok(finished);
        }
        let site = Site {
            unfinished: directory.join(format!("{name}.unfinished")),
            scratch: directory.join(format!("{name}.scratch")),
            log: directory.join(format!("{name}.log")),
            finished,
        };
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let lock = File::create(directory.join("lock"))?;
        lock.lock()?;
        // Whoever held the lock may have made it.
        if !site.finished.exists() {
            println!("making {name} of {}, once on this machine", self.0);
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

    /// The name of what was made here and holds `path`.
    pub(crate) fn name_of(self, path: &Path) -> Option<String> {
        let directory = self.directory().ok()?;
        let name = path.strip_prefix(directory).ok()?.iter().next()?;
        Some(name.to_str()?.to_owned())
    }

    fn directory(self) -> Result<PathBuf> {
        Ok(paths::cache()?.join(self.0))
    }
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

    /// Puts what is in an archive into `directory`, without the directory that all of it lies in.
    pub(crate) fn extract(&self, archive: &Path, directory: &Path) -> Result<()> {
        self.run(
            Command::new("tar")
                .args(["--extract", "--strip-components=1", "--file"])
                .arg(archive)
                .arg("--directory")
                .arg(directory),
        )
    }

    /// Removes what this or an earlier attempt has left.
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
        assert_eq!(shelf.name_of(Path::new("/usr/bin/python3.11")), None);
    }
}
