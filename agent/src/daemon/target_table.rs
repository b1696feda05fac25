//! The table of targets: which processes of the host are profiled, and under which labels.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::maps::KERNEL_THREADS;

use crate::{
    config, profile,
    session::{KERNEL_THREADS_NAME, Observer, Origin},
    targets::MAX_PROCESSES,
    targets::labels::{
        Labeller, Labels, Selector, Subject, Unmatched,
        attributes::Attributes,
        host::Host,
        metadata::{MetadataOptions, ProcessMetadata, Runtime},
        pods::{HostFiles, PodLists, Pods, Resolution, UnknownContainers},
    },
};

/// Service of samples whose process exited before it was examined, and the name by which a condition selects them.
const SHORT_LIVED: &str = "[short-lived programs]";

/// Time in which conditions of the selection may match nothing yet: names of pods come late.
const MATCHES_WITHIN: Duration = Duration::from_secs(60);

/// The processes of the host, by id.
pub(crate) struct TargetTable {
    targets: HashMap<u32, Target>,
    labeller: Labeller,
    fixed: BTreeMap<String, String>,
    selector: Selector,
    /// When it is said which of its conditions have matched nothing; [`None`] if that was said.
    say_unmatched: Option<Instant>,
    pods: Pods,
    wanted: MetadataOptions,
    /// Whether labels or the selection may depend on process ids.
    ids_matter: bool,
    /// Labels of samples of processes that are not in the table; [`None`] when they are not selected.
    unknown: Option<Arc<Labels>>,
}

/// Which targets to label again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relabel {
    /// All.
    All,
    /// Those in containers whose metadata is incomplete.
    Incomplete,
    /// Those in containers without metadata.
    Unknown,
}

/// A process of the host.
#[derive(Clone)]
struct Target {
    metadata: Arc<ProcessMetadata>,
    /// Whether its container has metadata; true if it is in none.
    is_resolved: bool,
    /// Whether no list of pods can add to it.
    is_complete: bool,
    /// [`None`] when it is not profiled.
    labels: Option<Arc<Labels>>,
    life: Life,
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Lives,
    /// It has exited since the last call of [`TargetTable::remove_exited`].
    HasExited,
    /// It had exited at that call.
    HadExited,
}

impl Target {
    fn has_exited(&self) -> bool {
        self.life != Life::Lives
    }
}

impl Observer for TargetTable {
    fn on_process(&mut self, process: &profile::Process, origin: Origin) -> Option<bool> {
        if process.pid == KERNEL_THREADS {
            return (!self.add_kernel_threads()).then_some(true);
        }
        let is_profiled = self.update(process, origin);
        // The BPF programs include a process at exec, and at fork copy the parent's inclusion.
        let is_forked = matches!(origin, Origin::Forked);
        let is_decided = !is_profiled || (is_forked && self.ids_matter);
        is_decided.then_some(!is_profiled)
    }

    fn on_exit(&mut self, pid: u32) {
        self.exit(pid);
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
        let metadata = ProcessMetadata {
            comm: SHORT_LIVED.to_owned(),
            ..ProcessMetadata::default()
        };
        let subject = Subject {
            metadata: &metadata,
            container_info: None,
        };
        // Of what they were nothing is known: a condition on that includes none of them. They are not counted as matches.
        let is_selected = config.selector.clone().selects(&subject);
        let unknown = is_selected.then(|| labeller.labels(&subject)).flatten();
        Self {
            targets: HashMap::new(),
            unknown: unknown.map(|it| Arc::new(it.with(&labels.fixed))),
            ids_matter: labels.per_process
                || !labels.rules.is_empty()
                || config.selector.depends_on_ids(),
            labeller,
            fixed: labels.fixed.clone(),
            selector: config.selector.clone(),
            say_unmatched: Some(Instant::now() + MATCHES_WITHIN),
            pods: Pods::new(
                HostFiles::new(&labels.host_root),
                config.kubernetes.has_source(),
            ),
            wanted: MetadataOptions {
                command_line: labels.command_lines,
                without_environment: !labels.trust_environment,
            },
        }
    }

    /// Applies another configuration; [`Self::relabel`] follows. What labels may not depend on any more is forgotten; what they
    /// may depend on from now on is known of programs that start later.
    pub(crate) fn reconfigure(&mut self, config: &config::Config) {
        let before = std::mem::replace(self, Self::new(config));
        self.targets = before.targets;
        for target in self.targets.values_mut() {
            if self.wanted.without_environment
                && target.metadata.attributes != Attributes::default()
            {
                Arc::make_mut(&mut target.metadata).attributes = Attributes::default();
            }
            if !self.wanted.command_line && target.metadata.command_line.is_some() {
                Arc::make_mut(&mut target.metadata).command_line = None;
            }
        }
    }

    /// Adds or updates a process; returns whether it is profiled.
    ///
    /// One that was just forked has its parent's metadata but for its id.
    fn update(&mut self, process: &profile::Process, origin: Origin) -> bool {
        let target = match origin {
            Origin::Examined(metadata) => metadata
                .map(|metadata| with_runtime(metadata.clone(), process))
                .map(|metadata| self.target(metadata.into())),
            Origin::Forked => self.copied(process),
        };
        target.is_none_or(|target| self.insert(process.pid, target))
    }

    /// Adds the threads of the kernel; returns whether they are profiled.
    fn add_kernel_threads(&mut self) -> bool {
        let metadata = ProcessMetadata {
            pid: KERNEL_THREADS,
            comm: KERNEL_THREADS_NAME.to_owned(),
            ..ProcessMetadata::default()
        };
        let target = self.target(metadata.into());
        self.insert(KERNEL_THREADS, target)
    }

    fn insert(&mut self, pid: u32, target: Target) -> bool {
        let is_profiled = target.labels.is_some();
        if self.targets.len() < MAX_PROCESSES || self.targets.contains_key(&pid) {
            self.targets.insert(pid, target);
        }
        is_profiled
    }

    /// What the metadata of processes has.
    pub(crate) fn metadata_options(&self) -> MetadataOptions {
        self.wanted
    }

    /// Marks a process as exited; it stays until the second [`Self::remove_exited`].
    fn exit(&mut self, pid: u32) {
        if let Some(target) = self.targets.get_mut(&pid) {
            target.life = Life::HasExited;
        }
    }

    /// Removes the processes that had exited at the last call: samples of those that have exited since
    /// may be in the window that is open now.
    pub(crate) fn remove_exited(&mut self) {
        self.targets
            .retain(|_, target| target.life != Life::HadExited);
        for target in self.targets.values_mut() {
            if target.has_exited() {
                target.life = Life::HadExited;
            }
        }
    }

    /// The labels of the series of a process; [`None`] if it is not profiled, or not in the table where the
    /// configuration selects processes by what is known of them.
    pub(crate) fn labels(&self, pid: u32) -> Option<Arc<Labels>> {
        match self.targets.get(&pid) {
            Some(target) => target.labels.clone(),
            None => self.unknown.clone(),
        }
    }

    /// Whether a process is in the table.
    pub(crate) fn contains(&self, pid: u32) -> bool {
        self.targets.contains_key(&pid)
    }

    /// The labels of all profiled processes, and of those that are not in the table.
    pub(crate) fn all_labels(&self) -> impl Iterator<Item = &Labels> + Clone {
        let known = self.targets.values();
        let known = known.filter_map(|target| target.labels.as_deref());
        known.chain(self.unknown.as_deref())
    }

    /// How many running processes are profiled, and how many are excluded.
    pub(crate) fn count(&self) -> (usize, usize) {
        let living = self.targets.values().filter(|target| !target.has_exited());
        let (profiled, excluded): (Vec<_>, Vec<_>) =
            living.partition(|target| target.labels.is_some());
        (profiled.len(), excluded.len())
    }

    /// The conditions of the selection that have matched no process.
    pub(crate) fn unmatched(&self) -> Unmatched {
        self.selector.unmatched()
    }

    /// The same, once, some time after the configuration was applied.
    pub(crate) fn take_unmatched(&mut self, now: Instant) -> Option<Unmatched> {
        self.say_unmatched.take_if(|at| now >= *at)?;
        Some(self.unmatched())
    }

    /// The containers for which to request lists of pods now.
    pub(crate) fn unknown_containers(&mut self) -> Option<UnknownContainers> {
        self.pods.next_request(Instant::now())
    }

    /// Applies new lists of pods. Returns the processes whose inclusion changed, with its new value.
    pub(crate) fn update_pods(&mut self, lists: PodLists) -> Vec<(u32, bool)> {
        if self.pods.update(lists, Instant::now()) {
            self.relabel(Relabel::Incomplete)
        } else {
            Vec::new()
        }
    }

    /// Selects and labels targets again. Returns the processes whose inclusion changed, with its new
    /// value.
    pub(crate) fn relabel(&mut self, which: Relabel) -> Vec<(u32, bool)> {
        let is_meant = |target: &Target| match which {
            Relabel::All => !target.has_exited(),
            // Samples of those that have exited may still be unreported.
            Relabel::Incomplete => !target.is_complete,
            Relabel::Unknown => !target.has_exited() && !target.is_resolved,
        };
        let selected: Vec<_> = self
            .targets
            .iter()
            .filter(|(_, target)| is_meant(target))
            .map(|(pid, target)| (*pid, target.clone()))
            .collect();
        let mut changed = Vec::new();
        for (pid, before) in selected {
            let target = Target {
                life: before.life,
                ..self.target(before.metadata)
            };
            let is_profiled = target.labels.is_some();
            if before.life == Life::Lives && before.labels.is_some() != is_profiled {
                changed.push((pid, is_profiled));
            }
            self.targets.insert(pid, target);
        }
        changed
    }

    /// The target of a process that was just forked.
    fn copied(&mut self, process: &profile::Process) -> Option<Target> {
        let original = self.targets.get(&process.parent?)?;
        if !self.ids_matter {
            return Some(Target {
                life: Life::Lives,
                ..original.clone()
            });
        }
        let metadata = ProcessMetadata {
            pid: process.pid,
            parent: process.parent,
            ..ProcessMetadata::clone(&original.metadata)
        };
        Some(self.target(metadata.into()))
    }

    fn target(&mut self, metadata: Arc<ProcessMetadata>) -> Target {
        let is_contained = metadata.cgroup.container().is_some() || metadata.cgroup.pod.is_some();
        let found = if is_contained {
            self.pods.find(&metadata.cgroup)
        } else {
            Resolution::default()
        };
        let subject = Subject {
            metadata: &metadata,
            container_info: found.container_info.as_ref(),
        };
        let labels = self
            .selector
            .selects(&subject)
            .then(|| self.labeller.labels(&subject))
            .flatten()
            .map(|labels| Arc::new(labels.with(&self.fixed)));
        Target {
            is_resolved: found.container_info.is_some() || !is_contained,
            is_complete: found.is_complete || !is_contained,
            labels,
            life: Life::Lives,
            metadata,
        }
    }
}

fn with_runtime(mut metadata: ProcessMetadata, process: &profile::Process) -> ProcessMetadata {
    metadata.runtime = process
        .runtime
        .strip_prefix("CPython ")
        .map(|version| Runtime {
            name: "cpython",
            version: version.to_owned(),
        });
    metadata
}

#[cfg(test)]
mod tests;
