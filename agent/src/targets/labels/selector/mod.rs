//! Which processes are profiled.
//!
//! A selector is two lists of conditions: a process is profiled if one of `include` is met, or
//! there is none, and none of `exclude`. A condition names metadata, all of which must be true; each
//! takes one value or a list of them, of which one must fit:
//!
//! | fact | fits |
//! |---|---|
//! | `pid` | the id of the process |
//! | `command` | its kernel's name, its executable's name, or its script's |
//! | `user` | the user's id or name, as the host's `/etc/passwd` has it |
//! | `cgroup` | a path that it is in or below, such as `/system.slice` |
//! | `unit` | its unit of systemd |
//! | `container` | the name of its container, or the id or at least 12 digits of it |
//! | `pod` | the name of its pod, or `NAMESPACE/NAME`, or the UID |
//! | `namespace` | the namespace of its pod |
//!
//! In names `*` stands for any text and `?` for any letter; the whole name must fit.
//!
//! Invariant: a selector that is taken cannot fail later; what is not known of a process fits
//! nothing.

mod pattern;
mod read;

use pattern::Pattern;
use serde::Deserialize;

use super::subject::Subject;

/// Which processes are profiled.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "read::Written")]
pub struct Selector {
    include: Vec<Condition>,
    exclude: Vec<Condition>,
}

/// ProcessMetadata that must all be true; of each list one element, and an empty list says nothing.
#[derive(Clone, Debug, Default)]
struct Condition {
    pids: Vec<u32>,
    commands: Vec<Pattern>,
    users: Vec<u32>,
    cgroups: Vec<String>,
    units: Vec<Pattern>,
    containers: Vec<Pattern>,
    pods: Vec<Pattern>,
    namespaces: Vec<Pattern>,
}

impl Selector {
    /// Whether a process is to be profiled.
    #[must_use]
    pub fn selects(&self, subject: &Subject) -> bool {
        let any = |conditions: &[Condition]| conditions.iter().any(|it| it.is_met(subject));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    /// Whether it depends on the ids of processes.
    #[must_use]
    pub fn depends_on_ids(&self) -> bool {
        let mut conditions = self.include.iter().chain(&self.exclude);
        conditions.any(|it| !it.pids.is_empty())
    }
}

impl Condition {
    fn is_met(&self, subject: &Subject) -> bool {
        let metadata = subject.metadata;
        let pod = subject
            .container_info
            .and_then(|container_info| container_info.pod.as_deref());
        let says = |list_is_empty: bool, is_true: bool| list_is_empty || is_true;
        says(self.pids.is_empty(), self.pids.contains(&metadata.pid))
            && says(
                self.users.is_empty(),
                metadata.user.is_some_and(|user| self.users.contains(&user)),
            )
            && says(
                self.cgroups.is_empty(),
                self.cgroups
                    .iter()
                    .any(|path| metadata.cgroup.is_within(path)),
            )
            && fits(&self.commands, || {
                let script = metadata.script.clone();
                let names = [metadata.comm.clone(), metadata.executable_name()];
                names.into_iter().chain(script)
            })
            && fits(&self.units, || metadata.cgroup.unit.clone())
            && (fits(&self.containers, || {
                subject
                    .container_info
                    .and_then(|container_info| container_info.container.clone())
            }) || self.has_container(subject))
            && fits(&self.pods, || {
                let claimed = metadata.cgroup.pod().map(|pod| pod.uid.clone());
                let names = pod.map(|pod| {
                    let full = format!("{}/{}", pod.namespace, pod.name);
                    [pod.name.clone(), full, pod.uid.clone()]
                });
                names.into_iter().flatten().chain(claimed)
            })
            && fits(&self.namespaces, || pod.map(|pod| pod.namespace.clone()))
    }

    /// Whether one of its containers is named by its id.
    fn has_container(&self, subject: &Subject) -> bool {
        subject.metadata.cgroup.containers.iter().any(|container| {
            let mut patterns = self.containers.iter();
            patterns.any(|pattern| pattern.is_start_of_id(&container.id))
        })
    }
}

/// Whether one of the names fits one of the patterns, if there are any.
fn fits<Names: IntoIterator<Item = String>>(
    patterns: &[Pattern],
    names: impl FnOnce() -> Names,
) -> bool {
    patterns.is_empty()
        || names()
            .into_iter()
            .any(|name| patterns.iter().any(|pattern| pattern.matches(&name)))
}

#[cfg(test)]
mod tests;
