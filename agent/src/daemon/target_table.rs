//! The processes of the host: which are profiled, and under which labels.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use agent_common::maps::KERNEL_THREADS;

use crate::{
    config,
    process::Process,
    profile,
    session::{KERNEL_THREADS_NAME, Observer},
    targets::{
        MAX_PROCESSES,
        labels::{
            Labeller, Labels, Selector, Subject,
            host::Host,
            metadata::{ProcessMetadata, Runtime, Wanted},
            pods::{Answer, Found, HostFiles, Pods, Question},
        },
    },
};

/// Service of samples whose process had ended before anybody looked at it.
const SHORT_LIVED: &str = "[short-lived programs]";

/// The processes of the host.
pub(crate) struct TargetTable {
    targets: HashMap<u32, Target>,
    labeller: Labeller,
    fixed: BTreeMap<String, String>,
    selector: Selector,
    pods: Pods,
    wanted: Wanted,
    /// Whether labels, or what is profiled, may depend on the ids of processes.
    ids_matter: bool,
    /// Of processes of which nothing else is known.
    unknown: Arc<Labels>,
}

/// Processes about which is decided anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// All.
    All,
    /// Those of containers of which lists of pods can say more.
    Incomplete,
    /// Those of containers of which nothing is known.
    Unknown,
}

/// A process.
#[derive(Clone)]
struct Target {
    facts: Arc<ProcessMetadata>,
    /// Whether it is known what its container is called, if it is in one.
    is_placed: bool,
    /// Whether no list of pods can say more.
    is_complete: bool,
    /// [`None`] when it is not profiled.
    labels: Option<Arc<Labels>>,
    has_ended: bool,
}

impl Observer for TargetTable {
    fn on_process(&mut self, process: &profile::Process, opened: Option<&Process>) -> Option<bool> {
        if process.pid == KERNEL_THREADS {
            return (!self.learn_kernel_threads()).then_some(true);
        }
        let is_profiled = self.learn(process, opened);
        // A process is included when it begins to run a program, and as its parent when it is
        // forked.
        let is_decided = !is_profiled || (opened.is_none() && self.ids_matter);
        is_decided.then_some(!is_profiled)
    }

    fn on_exit(&mut self, pid: u32) {
        self.end(pid);
    }
}

impl TargetTable {
    pub(crate) fn new(config: &config::Config) -> Self {
        let labels = &config.labels;
        let labeller = Labeller {
            host: Host::here(labels.node.clone()),
            rules: labels.rules.clone(),
            per_process: labels.per_process,
        };
        let facts = ProcessMetadata {
            command: SHORT_LIVED.to_owned(),
            ..ProcessMetadata::default()
        };
        let subject = Subject {
            facts: &facts,
            place: None,
        };
        let unknown = labeller.labels(&subject).unwrap_or_default();
        Self {
            targets: HashMap::new(),
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
    pub(crate) fn reconfigure(&mut self, config: &config::Config) {
        let before = std::mem::replace(self, Self::new(config));
        self.targets = before.targets;
    }

    /// Learns what a process is; says whether it is profiled.
    ///
    /// One that was not opened is a copy of its parent: it is what that is, but for its id.
    fn learn(&mut self, process: &profile::Process, opened: Option<&Process>) -> bool {
        let target = match opened {
            Some(opened) => self
                .facts(process, opened)
                .map(|facts| self.target(facts.into())),
            None => self.copied(process),
        };
        target.is_none_or(|target| self.insert(process.pid, target))
    }

    /// Learns of the kernel's own threads; says whether they are profiled.
    fn learn_kernel_threads(&mut self) -> bool {
        let facts = ProcessMetadata {
            pid: KERNEL_THREADS,
            command: KERNEL_THREADS_NAME.to_owned(),
            ..ProcessMetadata::default()
        };
        let target = self.target(facts.into());
        self.insert(KERNEL_THREADS, target)
    }

    fn insert(&mut self, pid: u32, target: Target) -> bool {
        let is_profiled = target.labels.is_some();
        if self.targets.len() < MAX_PROCESSES || self.targets.contains_key(&pid) {
            self.targets.insert(pid, target);
        }
        is_profiled
    }

    /// Takes notice that a process has ended; it is known until [`Self::forget_ended`].
    fn end(&mut self, pid: u32) {
        if let Some(target) = self.targets.get_mut(&pid) {
            target.has_ended = true;
        }
    }

    /// Forgets the processes that have ended.
    pub(crate) fn forget_ended(&mut self) {
        self.targets.retain(|_, target| !target.has_ended);
    }

    /// Under which labels a sample of a process is kept; [`None`] if it is not.
    pub(crate) fn labels(&self, pid: u32) -> Option<Arc<Labels>> {
        match self.targets.get(&pid) {
            Some(target) => target.labels.clone(),
            None => Some(Arc::clone(&self.unknown)),
        }
    }

    /// How many processes are profiled, and how many are not.
    pub(crate) fn count(&self) -> (usize, usize) {
        let living = self.targets.values().filter(|target| !target.has_ended);
        let (profiled, excluded): (Vec<_>, Vec<_>) =
            living.partition(|target| target.labels.is_some());
        (profiled.len(), excluded.len())
    }

    /// What is to be asked about pods, if anything now.
    pub(crate) fn question(&mut self) -> Option<Question> {
        self.pods.question(Instant::now())
    }

    /// Takes an answer about pods. Gives the processes that are profiled from now on, or no longer
    /// are.
    pub(crate) fn learn_pods(&mut self, answer: Answer) -> Vec<(u32, bool)> {
        if self.pods.learn(answer, Instant::now()) {
            self.decide_again(Again::Incomplete)
        } else {
            Vec::new()
        }
    }

    /// Decides anew about processes. Gives those that are profiled from now on, or no longer are.
    pub(crate) fn decide_again(&mut self, which: Again) -> Vec<(u32, bool)> {
        let is_meant = |target: &Target| match which {
            Again::All => !target.has_ended,
            // Samples of those that have ended are still to be reported.
            Again::Incomplete => !target.is_complete,
            Again::Unknown => !target.has_ended && !target.is_placed,
        };
        let again: Vec<_> = self
            .targets
            .iter()
            .filter(|(_, target)| is_meant(target))
            .map(|(pid, target)| (*pid, target.clone()))
            .collect();
        let mut changed = Vec::new();
        for (pid, before) in again {
            let target = Target {
                has_ended: before.has_ended,
                ..self.target(before.facts)
            };
            let is_profiled = target.labels.is_some();
            if !before.has_ended && before.labels.is_some() != is_profiled {
                changed.push((pid, is_profiled));
            }
            self.targets.insert(pid, target);
        }
        changed
    }

    /// A process that has just been forked: it is what its parent is, but where its id matters.
    fn copied(&mut self, process: &profile::Process) -> Option<Target> {
        let original = self.targets.get(&process.parent?)?;
        if !self.ids_matter {
            return Some(Target {
                has_ended: false,
                ..original.clone()
            });
        }
        let facts = ProcessMetadata {
            pid: process.pid,
            parent: process.parent,
            ..ProcessMetadata::clone(&original.facts)
        };
        Some(self.target(facts.into()))
    }

    /// What is known of a process by itself; [`None`] if that has ended already.
    fn facts(&self, process: &profile::Process, opened: &Process) -> Option<ProcessMetadata> {
        let mut facts = ProcessMetadata::read(opened, self.wanted).ok()?;
        facts.runtime = process
            .runtime
            .strip_prefix("CPython ")
            .map(|version| Runtime {
                name: "cpython",
                version: version.to_owned(),
            });
        Some(facts)
    }

    fn target(&mut self, facts: Arc<ProcessMetadata>) -> Target {
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
        Target {
            is_placed: found.place.is_some() || !is_contained,
            is_complete: found.is_complete || !is_contained,
            labels,
            has_ended: false,
            facts,
        }
    }
}
