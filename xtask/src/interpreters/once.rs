//! Makes a directory of the cache once per machine.
//!
//! Invariants: it is only ever seen whole, and only one process makes any at a time. What its
//! making says is kept in a log beside it, which an error names.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::paths;
use crate::process::run;

/// Where something is made.
pub(super) struct Site {
    /// What becomes the directory.
    pub(super) unfinished: PathBuf,
    /// What the directory will be called.
    pub(super) finished: PathBuf,
    /// For what is not needed when it is made.
    pub(super) scratch: PathBuf,
    log: PathBuf,
}

/// The directory `name` of the interpreters' cache, made by `make` if it is not there.
pub(super) fn ensure(name: &str, make: impl FnOnce(&Site) -> Result<()>) -> Result<PathBuf> {
    let directory = directory()?;
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
        println!("making the interpreter {name}, once on this machine");
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
pub(super) fn name_of(path: &Path) -> Option<String> {
    let name = path.strip_prefix(directory().ok()?).ok()?.iter().next()?;
    Some(name.to_str()?.to_owned())
}

fn directory() -> Result<PathBuf> {
    Ok(paths::cache()?.join("interpreters"))
}

impl Site {
    /// Runs `command` with its output in the log.
    pub(super) fn run(&self, command: &mut Command) -> Result<()> {
        let log = OpenOptions::new().append(true).open(&self.log)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        run(command)
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
        let cache = directory().unwrap();
        let name = name_of(&cache.join("3.13t/bin/python3.13t"));
        assert_eq!(name.as_deref(), Some("3.13t"));
        assert_eq!(name_of(Path::new("/usr/bin/python3.11")), None);
    }
}
