//! The processes of the host: which are profiled, and under which labels.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use agent_common::maps::KERNEL_THREADS;

use crate::{
    config,
    kernel::MAX_PROCESSES,
    labels::{
        Labeller, Labels, Selector, Subject,
        facts::{Facts, Runtime, Wanted},
        host::Host,
        pods::{Answer, Found, HostFiles, Pods, Question},
    },
    process::Process,
    profile,
};

/// Service of samples whose process had ended before anybody looked at it.
const SHORT_LIVED: &str = "[short-lived programs]";

/// Service of the threads that are the kernel's own.
pub(in crate::run) const KERNEL: &str = "[kernel]";

/// The processes of the host.
pub(in crate::run) struct Population {
    members: HashMap<u32, Member>,
    labeller: Labeller,
    fixed: BTreeMap<String, String>,
    selector: Selector,
    pods: Pods,
    wanted: Wanted,
    /// Whether labels, or what is profiled, may depend on the ids of processes.
    pub(in crate::run) ids_matter: bool,
    /// Of processes of which nothing else is known.
    unknown: Arc<Labels>,
}

/// Processes about which is decided anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// All.
    All,
    /// Those of containers of which lists of pods can say more.
    Incomplete,
    /// Those of containers of which nothing is known.
    Unknown,
}

/// A process.
#[derive(Clone)]
struct Member {
    facts: Arc<Facts>,
    /// Whether it is known what its container is called, if it is in one.
    is_placed: bool,
    /// Whether no list of pods can say more.
    is_complete: bool,
    /// [`None`] when it is not profiled.
    labels: Option<Arc<Labels>>,
    has_ended: bool,
}

impl Population {
    pub(in crate::run) fn new(config: &config::Config) -> Self {
        let labels = &config.labels;
        let labeller = Labeller {
            host: Host::here(labels.node.clone()),
            rules: labels.rules.clone(),
            per_process: labels.per_process,
        };
        let facts = Facts {
            command: SHORT_LIVED.to_owned(),
            ..Facts::default()
        };
        let subject = Subject {
            facts: &facts,
            place: None,
        };
        let unknown = labeller.labels(&subject).unwrap_or_default();
        Self {
            members: HashMap::new(),
            unknown: Arc::new(unknown.with(&labels.fixed)),
            ids_matter: labels.per_process
                || !labels.rules.is_empty()
                || config.selector.depends_on_ids(),
            labeller,
            fixed: labels.fixed.clone(),
            selector: config.selector.clone(),
            pods: Pods::new(HostFiles::new(&labels.host_root), config.kubernetes.asks()),
            wanted: Wanted {
                command_line: labels.command_lines,
            },
        }
    }

    /// Goes on with another configuration.
    pub(super) fn reconfigure(&mut self, config: &config::Config) {
        let before = std::mem::replace(self, Self::new(config));
        self.members = before.members;
    }

    /// Learns what a process is; says whether it is profiled.
    ///
    /// One that was not opened is a copy of its parent: it is what that is, but for its id.
    pub(in crate::run) fn learn(
        &mut self,
        process: &profile::Process,
        opened: Option<&Process>,
    ) -> bool {
        let member = match opened {
            Some(opened) => self
                .facts(process, opened)
                .map(|facts| self.member(facts.into())),
            None => self.copied(process),
        };
        member.is_none_or(|member| self.insert(process.pid, member))
    }

    /// Learns of the kernel's own threads; says whether they are profiled.
    pub(in crate::run) fn learn_kernel_threads(&mut self) -> bool {
        let facts = Facts {
            pid: KERNEL_THREADS,
            command: KERNEL.to_owned(),
            ..Facts::default()
        };
        let member = self.member(facts.into());
        self.insert(KERNEL_THREADS, member)
    }

    fn insert(&mut self, pid: u32, member: Member) -> bool {
        let is_profiled = member.labels.is_some();
        if self.members.len() < MAX_PROCESSES || self.members.contains_key(&pid) {
            self.members.insert(pid, member);
        }
        is_profiled
    }

    /// Takes notice that a process has ended; it is known until [`Self::forget_ended`].
    pub(in crate::run) fn end(&mut self, pid: u32) {
        if let Some(member) = self.members.get_mut(&pid) {
            member.has_ended = true;
        }
    }

    /// Forgets the processes that have ended.
    pub(super) fn forget_ended(&mut self) {
        self.members.retain(|_, member| !member.has_ended);
    }

    /// Under which labels a sample of a process is kept; [`None`] if it is not.
    pub(super) fn labels(&self, pid: u32) -> Option<Arc<Labels>> {
        match self.members.get(&pid) {
            Some(member) => member.labels.clone(),
            None => Some(Arc::clone(&self.unknown)),
        }
    }

    /// How many processes are profiled, and how many are not.
    pub(super) fn count(&self) -> (usize, usize) {
        let living = self.members.values().filter(|member| !member.has_ended);
        let (profiled, excluded): (Vec<_>, Vec<_>) =
            living.partition(|member| member.labels.is_some());
        (profiled.len(), excluded.len())
    }

    /// What is to be asked about pods, if anything now.
    pub(super) fn question(&mut self) -> Option<Question> {
        self.pods.question(Instant::now())
    }

    /// Takes an answer about pods. Gives the processes that are profiled from now on, or no longer
    /// are.
    pub(super) fn learn_pods(&mut self, answer: Answer) -> Vec<(u32, bool)> {
        if self.pods.learn(answer, Instant::now()) {
            self.decide_again(Again::Incomplete)
        } else {
            Vec::new()
        }
    }

    /// Decides anew about processes. Gives those that are profiled from now on, or no longer are.
    pub(super) fn decide_again(&mut self, which: Again) -> Vec<(u32, bool)> {
        let is_meant = |member: &Member| match which {
            Again::All => !member.has_ended,
            // Samples of those that have ended are still to be reported.
            Again::Incomplete => !member.is_complete,
            Again::Unknown => !member.has_ended && !member.is_placed,
        };
        let again: Vec<_> = self
            .members
            .iter()
            .filter(|(_, member)| is_meant(member))
            .map(|(pid, member)| (*pid, member.clone()))
            .collect();
        let mut changed = Vec::new();
        for (pid, before) in again {
            let member = Member {
                has_ended: before.has_ended,
                ..self.member(before.facts)
            };
            let is_profiled = member.labels.is_some();
            if !before.has_ended && before.labels.is_some() != is_profiled {
                changed.push((pid, is_profiled));
            }
            self.members.insert(pid, member);
        }
        changed
    }

    /// A process that has just been forked: it is what its parent is, but where its id matters.
    fn copied(&mut self, process: &profile::Process) -> Option<Member> {
        let original = self.members.get(&process.parent?)?;
        if !self.ids_matter {
            return Some(Member {
                has_ended: false,
                ..original.clone()
            });
        }
        let facts = Facts {
            pid: process.pid,
            parent: process.parent,
            ..Facts::clone(&original.facts)
        };
        Some(self.member(facts.into()))
    }

    /// What is known of a process by itself; [`None`] if that has ended already.
    fn facts(&self, process: &profile::Process, opened: &Process) -> Option<Facts> {
        let mut facts = Facts::read(opened, self.wanted).ok()?;
        facts.runtime = process
            .runtime
            .strip_prefix("CPython ")
            .map(|version| Runtime {
                name: "cpython",
                version: version.to_owned(),
            });
        Some(facts)
    }

    fn member(&mut self, facts: Arc<Facts>) -> Member {
        let is_contained = facts.cgroup.container().is_some() || facts.cgroup.pod().is_some();
        let found = if is_contained {
            self.pods.find(&facts.cgroup)
        } else {
            Found::default()
        };
        let subject = Subject {
            facts: &facts,
            place: found.place.as_ref(),
        };
        let labels = self
            .selector
            .selects(&subject)
            .then(|| self.labeller.labels(&subject))
            .flatten()
            .map(|labels| Arc::new(labels.with(&self.fixed)));
        Member {
            is_placed: found.place.is_some() || !is_contained,
            is_complete: found.is_complete || !is_contained,
            labels,
            has_ended: false,
            facts,
        }
    }
}
