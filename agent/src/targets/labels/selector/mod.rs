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
//! Invariants: a valid selector cannot fail later; missing metadata matches nothing; which conditions have matched no
//! process so far is known, as those with a slip of the pen do not.

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
    /// As it is written, in one line.
    text: String,
    /// Whether it has matched a process.
    has_matched: bool,
}

/// Conditions that have matched no process, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Of `include`.
    pub include: Vec<String>,
    /// Of `exclude`.
    pub exclude: Vec<String>,
    /// Whether these are all of `include`, so that no process is selected.
    pub is_nothing_included: bool,
}

impl Selector {
    /// Whether a process is selected.
    #[must_use]
    pub fn selects(&mut self, subject: &Subject) -> bool {
        let is_included = self.include.is_empty() || any_matches(&mut self.include, subject);
        let is_excluded = any_matches(&mut self.exclude, subject);
        is_included && !is_excluded
    }

    /// The conditions that have matched no process so far.
    #[must_use]
    pub fn unmatched(&self) -> Unmatched {
        let of = |conditions: &[Condition]| -> Vec<_> {
            let unmatched = conditions.iter().filter(|it| !it.has_matched);
            unmatched.map(|it| it.text.clone()).collect()
        };
        let include = of(&self.include);
        Unmatched {
            is_nothing_included: !include.is_empty() && include.len() == self.include.len(),
            include,
            exclude: of(&self.exclude),
        }
    }

    /// Whether the selection depends on process ids.
    #[must_use]
    pub fn depends_on_ids(&self) -> bool {
        let mut conditions = self.include.iter().chain(&self.exclude);
        conditions.any(|it| !it.pids.is_empty())
    }
}

/// Whether one of the conditions matches; each that has matched none before is tried.
fn any_matches(conditions: &mut [Condition], subject: &Subject) -> bool {
    let mut any = false;
    for condition in conditions {
        if !(any && condition.has_matched) && condition.matches(subject) {
            condition.has_matched = true;
            any = true;
        }
    }
    any
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
