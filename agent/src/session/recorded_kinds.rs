//! What is recorded of the processes of a session by kinds that only some can have: exceptions, allocations and tasks.
//! Of a capture, those that have none are named, and why.

use std::collections::HashMap;

use agent_common::record::ProfileKind;
use tracing::{debug, warn};

use super::{Session, coverage::Coverage};
use crate::{
    profile,
    python::{Interpreter, remote::tasks::TasksError},
    targets::examiner::Finding,
};

/// Why those are not recorded that a process announces.
const ANNOUNCED_IN_VAIN: &str =
    "what it announces by otel_memory:alloc is not recorded: that needs Linux 5.15";

/// Why allocations of a process are not recorded.
const NO_ALLOCATOR: &str = "allocations are not recorded, because none of its files is a C library or an allocator \
     that is known";

/// Why exceptions of a process are not recorded.
const NO_RAISE_SITE: &str = "exceptions are not recorded, because its interpreter's file has no symbol \
    `PyTraceBack_Here`: use a build that exports the C API";

impl Session {
    /// Has exceptions of a process recorded.
    pub(super) fn add_raise_site(&mut self, process: &profile::Process, interpreter: &Interpreter) {
        let kind = ProfileKind::EXCEPTIONS;
        if let Some(site) = &interpreter.raise_site {
            self.raise_sites
                .set(process.pid, std::slice::from_ref(site));
            self.cover(kind, |coverage| coverage.add_recorded(process));
        } else if !interpreter.is_early() {
            self.say(process.pid, NO_RAISE_SITE);
            self.cover(kind, |coverage| coverage.add_missing(process.pid, None));
        }
    }

    /// Notes whether a process has tasks, where they are wanted, and why not.
    pub(super) fn cover_tasks(&mut self, process: &profile::Process, error: Option<&TasksError>) {
        if !self.kinds.iter().any(|kind| kind.is_about_tasks()) {
            return;
        }
        self.cover(ProfileKind::TASKS, |coverage| match error {
            None => coverage.add_recorded(process),
            Some(error) => coverage.add_missing(process.pid, Some(error.to_string())),
        });
    }

    /// Has allocations of a process recorded.
    pub(super) fn add_allocation_sites(
        &mut self,
        process: &profile::Process,
        interpreter: &Interpreter,
    ) {
        let pid = process.pid;
        let takes_announced = self.bpf.take_announced();
        let code = interpreter.allocator_code(takes_announced);
        self.bpf.set_allocator(pid, code);
        let mut sites = interpreter.allocators.clone();
        if takes_announced {
            sites.extend(interpreter.announced.iter().cloned());
        } else if !interpreter.announced.is_empty() {
            self.say(pid, ANNOUNCED_IN_VAIN);
        }
        let has_room = self.allocation_sites.set(pid, &sites);
        let kind = ProfileKind::ALLOCATIONS;
        let is_early = interpreter.is_early();
        if sites.is_empty() {
            // One that is early is examined again.
            if !is_early {
                self.say(pid, NO_ALLOCATOR);
                self.cover(kind, |coverage| coverage.add_missing(pid, None));
            }
        } else if has_room {
            self.cover(kind, |coverage| coverage.add_recorded(process));
            if interpreter.flavour.is_free_threaded && !is_early {
                self.cover(kind, |coverage| coverage.add_own_allocator(pid));
            }
        } else {
            self.note_too_many_allocators(pid);
        }
    }

    /// Notes that no allocations of a process are recorded, as there are too many others.
    pub(super) fn note_too_many_allocators(&mut self, pid: u32) {
        let reason = format!("process {pid} is one of more than there may be at a time");
        self.cover(ProfileKind::ALLOCATIONS, |coverage| {
            coverage.add_missing(pid, Some(reason));
        });
    }

    /// Notes that nothing is recorded by probes of a process without an interpreter that is supported, or not any more.
    pub(super) fn note_interpreter(&mut self, finding: &Finding) {
        let pid = finding.process.pid;
        let Err(error) = &finding.interpreter else {
            self.forget_coverage(pid);
            return;
        };
        for kind in self.kinds.clone() {
            if kind.found_in_some().is_some() {
                let reason = error.to_string();
                self.cover(kind.number, |coverage| {
                    coverage.add_missing(pid, Some(reason));
                });
            }
        }
    }

    /// Notes of what a kind has samples: not on a host, where most processes are without Python.
    fn cover(&mut self, kind: ProfileKind, note: impl FnOnce(&mut Coverage)) {
        if !self.is_host {
            note(self.coverage.entry(kind).or_default());
        }
    }

    /// Forgets that nothing was recorded of the program that a process has run.
    pub(super) fn forget_coverage(&mut self, pid: u32) {
        for coverage in self.coverage.values_mut() {
            coverage.forget_program(pid);
        }
    }

    /// Says of which processes nothing was recorded; returns what is known of that.
    pub(super) fn take_coverage(&mut self) -> HashMap<ProfileKind, Coverage> {
        let coverage = std::mem::take(&mut self.coverage);
        for kind in &self.kinds {
            if let (Some(what), Some(coverage)) = (kind.found_in_some(), coverage.get(&kind.number))
            {
                coverage.say(what);
            }
        }
        coverage
    }

    /// Says what is not recorded of a process: to everybody where it was chosen.
    fn say(&self, pid: u32, what: &str) {
        if self.is_host {
            debug!("process {pid}: {what}");
        } else {
            warn!("process {pid}: {what}");
        }
    }
}
