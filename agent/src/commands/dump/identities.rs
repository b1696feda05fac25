//! What a session knows of its processes from when it was opened: a later dump needs another one where this has changed.

use std::collections::BTreeMap;

use agent_common::maps::Mapping;
use anyhow::Result;

use crate::{
    commands::{cli::DumpOptions, examine::examine_all},
    profile,
    session::{Examinations, examine_descendants},
    targets::examiner::Finding,
};

/// Some processes, by id.
#[derive(Debug, PartialEq)]
pub(super) struct Identities(BTreeMap<u32, Identity>);

/// A process: the program that it runs, its names, its interpreter, and where code is.
#[derive(Debug, PartialEq)]
struct Identity {
    process: profile::Process,
    command_line: Option<String>,
    mappings: Vec<Mapping>,
}

impl Identities {
    /// The processes that are wanted now.
    ///
    /// # Errors
    ///
    /// When one of them cannot be examined.
    pub(super) async fn read(examinations: &Examinations, options: &DumpOptions) -> Result<Self> {
        let found = examine_all(examinations, &options.processes).await?.found;
        Ok(Self::of(&found, examinations, options).await)
    }

    /// Those that were found, with their descendants if they are wanted.
    pub(super) async fn of(
        found: &[Finding],
        examinations: &Examinations,
        options: &DumpOptions,
    ) -> Self {
        let descendants = if options.children {
            examine_descendants(examinations, found).await
        } else {
            Vec::new()
        };
        let identities = found.iter().chain(&descendants).map(|one| {
            let metadata = one.metadata.as_ref();
            let mapped = one.mapped.as_ref();
            let identity = Identity {
                process: one.process.clone(),
                command_line: metadata.and_then(|it| it.command_line.clone()),
                mappings: mapped.map_or(Vec::new(), |mapped| mapped.mappings.clone()),
            };
            (one.process.pid, identity)
        });
        Self(identities.collect())
    }
}
