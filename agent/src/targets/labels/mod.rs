//! What a process is called: the labels under which its profiles are kept.
//!
//! ```text
//! process ─► facts ─┐
//! pods ─► place ────┴─► own labels + `__meta_` labels ─► relabel ─► Labels
//! ```
//!
//! Profiles are pushed one for each set of labels, so what tells processes apart multiplies what
//! is stored: the id and the name of a process are left out unless they are asked for.
//!
//! [`Selector`] says, by the same facts, what is profiled at all.
//!
//! Invariants: a label has a name of letters, digits and `_`, and a value; everything that comes
//! from a process is untrusted and bounded; arguments and variables of a process do not get into
//! labels, except those that are named in [`service`] and, if asked for, the command line.

pub mod attributes;
pub mod host;
mod meta;
pub mod metadata;
pub mod pods;
pub mod relabel;
pub mod selector;
pub mod service;

use std::collections::BTreeMap;

use host::Host;
use metadata::ProcessMetadata;
use pods::ContainerInfo;
use relabel::Rules;
pub use selector::Selector;

/// Most bytes of a value; Pyroscope refuses longer ones.
const MAX_VALUE: usize = 2048;

/// Labels, and what OpenTelemetry calls them as attributes of a resource.
const NAMES: [(&str, &str); 20] = [
    ("container", "k8s.container.name"),
    ("container_id", "container.id"),
    ("container_name", "container.name"),
    ("container_runtime", "container.runtime"),
    ("deployment_environment", "deployment.environment.name"),
    ("host_arch", "host.arch"),
    ("host_name", "host.name"),
    ("namespace", "k8s.namespace.name"),
    ("node", "k8s.node.name"),
    ("pod", "k8s.pod.name"),
    ("pod_uid", "k8s.pod.uid"),
    ("process_executable_name", "process.executable.name"),
    ("process_id", "process.pid"),
    ("process_runtime_name", "process.runtime.name"),
    ("process_runtime_version", "process.runtime.version"),
    ("service_name", "service.name"),
    ("service_namespace", "service.namespace"),
    ("service_version", "service.version"),
    ("service_instance_id", "service.instance.id"),
    ("systemd_unit", "systemd.unit"),
];

/// The labels of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// The value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// These, and `others` where they do not have a value of their own.
    #[must_use]
    pub fn with(mut self, others: &BTreeMap<String, String>) -> Self {
        for (name, value) in others {
            self.0.entry(name.clone()).or_insert_with(|| value.clone());
        }
        self
    }

    /// The values, by name.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// What OpenTelemetry calls a label as an attribute of a resource; what it has no name for keeps
/// its own.
#[must_use]
pub fn attribute_name(label: &str) -> &str {
    let known = NAMES.iter().find(|(name, _)| *name == label);
    known.map_or(label, |(_, attribute)| attribute)
}

/// Whether all destinations take it for the name of a label.
#[must_use]
pub fn is_name(name: &str) -> bool {
    relabel::is_label_name(name) && !name.starts_with(relabel::HIDDEN)
}

/// A process of which labels are made.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What is known of it by itself.
    pub facts: &'a ProcessMetadata,
    /// What its container is called, where that is known.
    pub place: Option<&'a ContainerInfo>,
}

/// Makes labels.
#[derive(Clone, Debug, Default)]
pub struct Labeller {
    /// The machine.
    pub host: Host,
    /// What is done with the labels.
    pub rules: Rules,
    /// Whether each process has labels of its own.
    pub per_process: bool,
}

impl Labeller {
    /// The labels of a process; [`None`] if the rules drop it, so that it is not to be profiled.
    #[must_use]
    pub fn labels(&self, subject: &Subject) -> Option<Labels> {
        let mut set = Set::default();
        self.add(&mut set, subject);
        meta::add(&mut set, subject);
        let mut labels = self.rules.apply(set.0)?;
        for value in labels.values_mut() {
            cut(value, MAX_VALUE);
        }
        Some(Labels(labels))
    }

    /// Adds those labels that remain unless the rules remove them.
    fn add(&self, set: &mut Set, subject: &Subject) {
        let Subject { facts, place } = *subject;
        let attribute = |name| facts.attributes.get(name).map(str::to_owned);
        set.add("service_name", Some(service::name(facts, place)));
        set.add("service_namespace", attribute("service.namespace"));
        set.add("service_version", attribute("service.version"));
        set.add(
            "deployment_environment",
            attribute("deployment.environment.name")
                .or_else(|| attribute("deployment.environment")),
        );

        let pod = place.and_then(|place| place.pod.as_deref());
        let container = place.and_then(|place| place.container.clone());
        if let Some(pod) = pod {
            set.add("namespace", Some(pod.namespace.clone()));
            set.add("pod", Some(pod.name.clone()));
            set.add("container", container);
        } else {
            set.add("container_name", container);
        }
        let node = pod.and_then(|pod| pod.node.clone());
        set.add("node", node.or_else(|| self.host.node.clone()));
        let container = facts.cgroup.container();
        set.add("container_id", container.map(|it| it.id.clone()));
        let runtime = container.and_then(|it| it.runtime);
        set.add(
            "container_runtime",
            runtime.map(|it| it.as_str().to_owned()),
        );
        // Each session has a scope of its own, and would have a label.
        let unit = facts.cgroup.unit.clone();
        set.add(
            "systemd_unit",
            unit.filter(|unit| unit.strip_suffix(".service").is_some()),
        );

        set.add("host_name", Some(self.host.name.clone()));
        set.add("host_arch", Some(self.host.architecture.to_owned()));
        if let Some(runtime) = &facts.runtime {
            set.add("process_runtime_name", Some(runtime.name.to_owned()));
            set.add("process_runtime_version", Some(runtime.version.clone()));
        }
        if self.per_process {
            set.add("process_id", Some(facts.pid.to_string()));
            set.add("process_executable_name", Some(facts.executable_name()));
        }
    }
}

/// Labels that are being made.
#[derive(Debug, Default)]
struct Set(BTreeMap<String, String>);

impl Set {
    /// Adds a label if it has a value.
    fn add(&mut self, name: &str, value: Option<String>) {
        if let Some(mut value) = value.filter(|value| !value.is_empty()) {
            // A command line may be longer than any label.
            cut(&mut value, relabel::MAX_VALUE);
            self.0.insert(name.to_owned(), value);
        }
    }
}

/// Shortens a text to so many bytes at most, between letters.
fn cut(text: &mut String, most: usize) {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

#[cfg(test)]
mod tests;
