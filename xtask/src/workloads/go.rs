//! Three Go programs out of large modules, as `go build` makes them by default, with compressed
//! debug information.
//!
//! Invariants: the versions and hashes of all modules are those of `go.mod` and `go.sum` beside the
//! sources; the user's modules and settings do not apply.

use std::path::PathBuf;

use anyhow::Result;

use super::SHELF;
use crate::cache::hash;
use crate::paths;
use crate::tools::go::{self, Go};

/// The sources, below the workspace.
const DIRECTORY: &str = "xtask/bench/large/go";

/// The files that the programs are made from.
const SOURCES: [&str; 6] = [
    include_str!("../../bench/large/go/go.mod"),
    include_str!("../../bench/large/go/go.sum"),
    include_str!("../../bench/large/go/keys/main.go"),
    include_str!("../../bench/large/go/objects/main.go"),
    include_str!("../../bench/large/go/pace/pace.go"),
    include_str!("../../bench/large/go/queries/main.go"),
];

/// The programs.
const NAMES: [&str; 3] = ["keys", "objects", "queries"];

/// A program that was made by [`programs`].
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// With what it was compiled.
    pub go: Go,
}

/// The programs, made where they are missing.
///
/// # Errors
///
/// When they cannot be made.
pub fn programs() -> Result<[Program; 3]> {
    let go = go::newest()?;
    let parts = SOURCES.into_iter().chain([go.version()]);
    let name = format!("bench-go-{}", hash(parts));
    let directory = SHELF.ensure(&name, |site| {
        let mut command = go.in_module(&paths::workspace().join(DIRECTORY), &site.scratch);
        command
            .args(["build", "-trimpath", "-o"])
            .arg(&site.unfinished)
            .args(NAMES.map(|name| format!("./{name}")));
        site.run(&mut command)
    })?;
    Ok(NAMES.map(|name| Program {
        name,
        path: directory.join(name),
        go: go.clone(),
    }))
}
