//! Which processes are profiled.
//!
//! A selector is two lists of conditions: a process is profiled if it matches one of `include`, or
//! that is empty, and none of `exclude`. All keys of a condition must match; each has one value or a
//! list of them, of which one must match:
//!
//! | key | matches |
//! |---|---|
//! | `pid` | the id of the process |
//! | `command` | its comm, the name of its executable, or that of its script, with or without `.py` |
//! | `user` | the user's id or name, as the host's `/etc/passwd` has it |
//! | `cgroup` | a path that it is in or below, such as `/system.slice` |
//! | `unit` | its unit of systemd, without a suffix a service, or a slice that it is in |
//! | `container` | the name of its container, or the id or at least 12 digits of it |
//! | `pod` | the name of its pod, or `NAMESPACE/NAME`, or the UID |
//! | `namespace` | the namespace of its pod |
//!
//! In names `*` matches any text and `?` any character; the whole name must match.
//!
//! Invariant: a valid selector cannot fail later; missing metadata matches nothing.

mod pattern;
mod read;

pub(in crate::targets) use pattern::Pattern;
use serde::Deserialize;

use super::subject::Subject;

/// Which processes are profiled.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "read::Written")]
pub struct Selector {
    include: Vec<Condition>,
    exclude: Vec<Condition>,
}

/// A condition: every list that is not empty must match with one of its elements.
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
    /// Whether a process is selected.
    #[must_use]
    pub fn selects(&self, subject: &Subject) -> bool {
        let any = |conditions: &[Condition]| conditions.iter().any(|it| it.matches(subject));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    /// Whether the selection depends on process ids.
    #[must_use]
    pub fn depends_on_ids(&self) -> bool {
        let mut conditions = self.include.iter().chain(&self.exclude);
        conditions.any(|it| !it.pids.is_empty())
    }
}

impl Condition {
    fn matches(&self, subject: &Subject) -> bool {
        let metadata = subject.metadata;
        let pod = subject
            .container_info
            .and_then(|container_info| container_info.pod.as_deref());
        let matches = |list_is_empty: bool, is_match: bool| list_is_empty || is_match;
        matches(self.pids.is_empty(), self.pids.contains(&metadata.pid))
            && matches(
                self.users.is_empty(),
                metadata.user.is_some_and(|user| self.users.contains(&user)),
            )
            && matches(
                self.cgroups.is_empty(),
                self.cgroups
                    .iter()
                    .any(|path| metadata.cgroup.is_within(path)),
            )
            && matches_any(&self.commands, || {
                let script = metadata.script.clone();
                let names = [metadata.comm.clone(), metadata.executable_name()];
                names.into_iter().chain(script)
            })
            && matches_any(&self.units, || {
                let units = metadata.cgroup.units().map(str::to_owned);
                units.chain(metadata.cgroup.unit.clone())
            })
            && (matches_any(&self.containers, || {
                subject
                    .container_info
                    .and_then(|container_info| container_info.container.clone())
            }) || self.has_container(subject))
            && matches_any(&self.pods, || {
                let claimed = metadata.cgroup.pod.as_ref().map(|pod| pod.uid.clone());
                let names = pod.map(|pod| {
                    let full = format!("{}/{}", pod.namespace, pod.name);
                    [pod.name.clone(), full, pod.uid.clone()]
                });
                names.into_iter().flatten().chain(claimed)
            })
            && matches_any(&self.namespaces, || pod.map(|pod| pod.namespace.clone()))
    }

    /// Whether the id of one of its containers matches.
    fn has_container(&self, subject: &Subject) -> bool {
        subject.metadata.cgroup.containers.iter().any(|container| {
            let mut patterns = self.containers.iter();
            patterns.any(|pattern| pattern.is_start_of_id(&container.id))
        })
    }
}

/// Whether one of the names matches one of the patterns; true without patterns.
fn matches_any<Names: IntoIterator<Item = String>>(
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
