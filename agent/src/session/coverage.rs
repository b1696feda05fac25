//! Of which processes nothing is recorded, by probes or of their tasks, and why: it is said at the end of a capture, as
//! a program may be started by a shell, and load its interpreter late.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use agent_common::record::ProfileKind;
use tracing::warn;

use crate::{
    profile::{self, Profile},
    text::plural,
};

/// Most processes that are known of a kind; more are counted.
const MAX_PROCESSES: usize = 4096;

/// Most processes of which it is said why.
const MAX_REASONS: usize = 3;

/// Of one kind of profile.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    /// The first process with a probe.
    recorded: Option<profile::Process>,
    /// Processes without one, and why; [`None`] where that has been said.
    missing: BTreeMap<u32, Option<String>>,
    /// More of them.
    more: u64,
    /// Processes that allocate their objects by themselves.
    own_allocators: BTreeSet<u32>,
}

impl Coverage {
    /// A process is recorded.
    pub(super) fn add_recorded(&mut self, process: &profile::Process) {
        self.missing.remove(&process.pid);
        if self.recorded.is_none() {
            self.recorded = Some(process.clone());
        }
    }

    /// A process is not, as things are now; the reason is [`None`] where it has been said.
    pub(super) fn add_missing(&mut self, pid: u32, reason: Option<String>) {
        if self.missing.len() < MAX_PROCESSES || self.missing.contains_key(&pid) {
            self.missing.insert(pid, reason);
        } else {
            self.more += 1;
        }
    }

    /// A process with a probe allocates its objects by itself.
    pub(super) fn add_own_allocator(&mut self, pid: u32) {
        if self.own_allocators.len() < MAX_PROCESSES {
            self.own_allocators.insert(pid);
        }
    }

    /// A process runs another program.
    pub(super) fn forget_program(&mut self, pid: u32) {
        self.missing.remove(&pid);
    }

    /// Processes of which nothing is recorded.
    fn missing(&self) -> u64 {
        self.missing.len() as u64 + self.more
    }

    /// Why nothing is recorded of some processes, unless that has been said; `what` is what is recorded.
    fn sentence(&self, what: &str) -> Option<String> {
        let reasons: BTreeSet<&str> = self.missing.values().flatten().map(|it| &**it).collect();
        let shown: Vec<_> = reasons.iter().copied().take(MAX_REASONS).collect();
        if shown.is_empty() {
            return None;
        }
        let unsaid = self.missing.values().flatten().count() as u64 + self.more;
        let others = unsaid.saturating_sub(shown.len() as u64);
        let reasons = shown.join("; ");
        Some(match others {
            0 => format!("{what} cannot be recorded: {reasons}"),
            _ => format!(
                "{what} cannot be recorded: {reasons}; and {others} more {}",
                plural(others, "process", "processes")
            ),
        })
    }

    /// Says why nothing is recorded of some processes.
    pub(super) fn say(&self, what: &str) {
        if let Some(sentence) = self.sentence(what) {
            warn!("{sentence}");
        }
    }

    /// Has a profile say what is missing. Without samples it is about a process that could have had some.
    pub(super) fn complete(&self, profile: &mut Profile) {
        if profile.kind.is_of_probe() {
            profile.losses.unprobed = self.missing();
        }
        profile.losses.own_allocators = self.own_allocators.len() as u64;
        if let (true, Some(process)) = (profile.samples.is_empty(), &self.recorded) {
            // It may have been known by what it ran before.
            let mut known = profile.processes.iter_mut();
            match known.find(|it| it.pid == process.pid) {
                Some(known) => *known = process.clone(),
                None => profile.processes = vec![process.clone()],
            }
        }
    }
}

/// The profile with what the coverage of its kind has to say.
pub(super) fn completed(
    mut profile: Profile,
    coverage: &HashMap<ProfileKind, Coverage>,
) -> Profile {
    if let Some(coverage) = coverage.get(&profile.kind.number) {
        coverage.complete(&mut profile);
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{fixtures::example_profile, fixtures::of_kind, kinds::allocations};

    fn python(pid: u32) -> profile::Process {
        profile::Process {
            pid,
            name: "python3".to_owned(),
            is_python: true,
            ..profile::Process::default()
        }
    }

    fn empty_profile() -> Profile {
        let mut profile = of_kind(example_profile(""), &allocations::KIND);
        profile.samples.clear();
        profile.processes = vec![profile::Process::default()];
        profile
    }

    #[test]
    fn a_process_without_a_probe_is_a_loss_and_a_sentence() {
        let mut coverage = Coverage::default();
        coverage.add_missing(7, Some("process 7 runs /bin/sh".to_owned()));
        assert_eq!(
            coverage.sentence("allocations").as_deref(),
            Some("allocations cannot be recorded: process 7 runs /bin/sh")
        );
        let mut profile = empty_profile();
        coverage.complete(&mut profile);
        assert_eq!(profile.losses.unprobed, 1);
        assert!(!profile.processes[0].is_python);
    }

    #[test]
    fn a_shell_that_becomes_python_is_none() {
        let mut coverage = Coverage::default();
        coverage.add_missing(7, Some("process 7 runs /bin/sh".to_owned()));
        coverage.forget_program(7);
        coverage.add_missing(7, Some("process 7 runs python3, yet".to_owned()));
        coverage.add_recorded(&python(7));
        assert_eq!(coverage.sentence("allocations"), None);
        let mut profile = empty_profile();
        coverage.complete(&mut profile);
        assert_eq!(profile.losses.unprobed, 0);
        // It is the one of which there is nothing.
        assert_eq!(profile.processes, [python(7)]);
        profile.processes = vec![
            profile::Process {
                pid: 7,
                ..profile::Process::default()
            },
            python(8),
        ];
        coverage.complete(&mut profile);
        assert_eq!(profile.processes, [python(7), python(8)]);
    }

    #[test]
    fn many_processes_are_counted() {
        let mut coverage = Coverage::default();
        coverage.add_recorded(&python(1));
        coverage.add_missing(2, None);
        for pid in 10..15 {
            coverage.add_missing(pid, Some(format!("process {pid} runs /bin/ls")));
        }
        assert_eq!(
            coverage.sentence("exceptions").as_deref(),
            Some(
                "exceptions cannot be recorded: process 10 runs /bin/ls; process 11 runs /bin/ls; \
                 process 12 runs /bin/ls; and 2 more processes"
            )
        );
        for pid in 100..=5100 {
            coverage.add_missing(pid, None);
        }
        assert_eq!(coverage.missing(), 5007);
    }
}
