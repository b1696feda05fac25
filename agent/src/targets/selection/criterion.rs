//! One option that selects processes by what they are.

use std::{collections::HashMap, fmt};

use super::running::RunningProcess;
use crate::{
    process::cgroup::{Cgroup, is_whole_unit_name, stem_of_unit},
    targets::labels::{
        pods::{HostFiles, Pod},
        selector::Pattern,
    },
    text::{printable, shortened},
};

/// The root of the files of the host.
const HOST: &str = "/";

/// Where control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Digits of a container id that are shown, as many as Docker shows.
const ID_DIGITS: usize = 12;

/// Most containers whose pods are remembered.
const MAX_PODS: usize = 4096;

/// Columns of a name that is shown.
const NAME_WIDTH: usize = 60;

/// What the processes have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// A name of the process, in which `*` is any text and `?` any character.
    Name(String),
    /// A systemd unit of the host.
    Unit(String),
    /// A container, by its id or how that begins.
    Container(String),
    /// A pod, by its name, its namespace and name, or its UID.
    Pod(String),
    /// A control group, and those below it.
    Cgroup(String),
}

/// By what a process is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// By a name, which may be another one after each exec.
    Name,
    /// By its control groups, which an exec does not change.
    Group,
}

impl Match {
    /// The one that lasts longer.
    pub(super) fn or(self, other: Option<Self>) -> Self {
        if other == Some(Self::Group) {
            Self::Group
        } else {
            self
        }
    }
}

impl Criterion {
    fn option_and_value(&self) -> (&'static str, &str) {
        match self {
            Self::Name(value) => ("--name", value),
            Self::Unit(value) => ("--unit", value),
            Self::Container(value) => ("--container", value),
            Self::Pod(value) => ("--pod", value),
            Self::Cgroup(value) => ("--cgroup", value),
        }
    }

    /// What is compared with the names of processes.
    pub(super) fn value(&self) -> &str {
        self.option_and_value().1
    }

    /// Whether a process has one of its [names](Self::names_of).
    pub(super) fn matches(&self, process: &RunningProcess, pods: &mut PodNames) -> bool {
        match self {
            Self::Name(value) => {
                let (whole, script) = (Pattern::new(value), value.strip_suffix(".py"));
                let script = script.map(Pattern::new);
                let mut names = process.names.iter();
                names.any(|name| {
                    whole.matches(name) || script.as_ref().is_some_and(|it| it.matches(name))
                })
            }
            Self::Unit(value) => {
                let suffix = if is_whole_unit_name(value) {
                    ""
                } else {
                    ".service"
                };
                let wanted = format!("{value}{suffix}");
                process.cgroup.units().any(|unit| unit == wanted)
            }
            Self::Container(value) => {
                let container = process.cgroup.container();
                container.is_some_and(|it| it.id.starts_with(value.as_str()))
            }
            Self::Pod(value) => pods.names(&process.cgroup).iter().any(|name| name == value),
            Self::Cgroup(value) => {
                let path = value.strip_prefix(CGROUPS).unwrap_or(value);
                let slash = if path.starts_with('/') { "" } else { "/" };
                process.cgroup.is_within(&format!("{slash}{path}"))
            }
        }
    }

    /// By what it selects.
    pub(super) fn kind(&self) -> Match {
        match self {
            Self::Name(_) => Match::Name,
            Self::Unit(_) | Self::Container(_) | Self::Pod(_) | Self::Cgroup(_) => Match::Group,
        }
    }

    /// The same for processes that start later than this one, which it selects: another container may have an id that
    /// begins as this one's.
    pub(super) fn of(&self, process: &RunningProcess) -> Self {
        match (self, process.cgroup.container()) {
            (Self::Container(_), Some(container)) => Self::Container(container.id.clone()),
            _ => self.clone(),
        }
    }

    /// Names of a process that this could have meant.
    pub(super) fn names_of(&self, process: &RunningProcess, pods: &mut PodNames) -> Vec<String> {
        match self {
            Self::Name(_) => process.names.clone(),
            Self::Unit(_) => process.cgroup.units().map(str::to_owned).collect(),
            Self::Container(_) => {
                let container = process.cgroup.container();
                let id = container.map(|it| it.id.chars().take(ID_DIGITS).collect());
                id.into_iter().collect()
            }
            Self::Pod(_) => pods.names(&process.cgroup),
            Self::Cgroup(_) => groups(&process.cgroup.path),
        }
    }

    /// What of a name, or of what was looked for, tells whether the one could have been meant by the other: not what
    /// many names have in common.
    pub(super) fn compared(&self, name: &str) -> String {
        let part = match self {
            Self::Name(_) => return name.replace(['*', '?'], "").to_lowercase(),
            Self::Unit(_) => stem_of_unit(name),
            Self::Container(_) => name.get(..ID_DIGITS).unwrap_or(name),
            Self::Pod(_) => name,
            Self::Cgroup(_) => stem_of_unit(
                name.trim_end_matches('/')
                    .rsplit('/')
                    .next()
                    .unwrap_or(name),
            ),
        };
        part.to_lowercase()
    }

    /// A sentence about what shows that which could be looked for.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Name(_) => "`agent top` shows what runs",
            Self::Unit(_) => "`systemctl list-units` shows units",
            Self::Container(_) => {
                "`docker ps`, `podman ps` or `crictl ps` shows containers with their ids"
            }
            Self::Pod(_) => "`crictl pods` or `kubectl get pods` shows pods",
            Self::Cgroup(_) => "`systemd-cgls` shows control groups",
        }
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (option, value) = self.option_and_value();
        write!(formatter, "{option} {}", shown(value))
    }
}

/// A name as it is shown.
pub(super) fn shown(name: &str) -> String {
    shortened(&printable(name), NAME_WIDTH).into_owned()
}

/// The path of a control group and those around it, but for the root.
fn groups(path: &str) -> Vec<String> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    let groups = ends.chain([path.len()]).map(|end| &path[..end]);
    groups
        .filter(|group| group.len() > 1)
        .map(str::to_owned)
        .collect()
}

/// The names of pods, from the files of the host; each is looked up once.
#[derive(Debug, Default)]
pub(super) struct PodNames(HashMap<(String, String), Vec<String>>);

impl PodNames {
    /// The name of the pod of a process, with and without its namespace, and its UID.
    fn names(&mut self, cgroup: &Cgroup) -> Vec<String> {
        let uid = cgroup.pod.as_ref().map(|pod| pod.uid.clone());
        let container = cgroup.container();
        if uid.is_none() && container.is_none() {
            return Vec::new();
        }
        let id = container.map(|it| it.id.clone()).unwrap_or_default();
        let key = (uid.unwrap_or_default(), id);
        let look_up = || {
            let files = HostFiles::new(HOST);
            let by_uid = cgroup.pod.as_ref().and_then(|pod| files.pod(&pod.uid));
            let found = by_uid.or_else(|| container.and_then(|it| files.container(it)));
            let pod = found.and_then(|found| found.pod);
            let mut names = pod.map(|pod| names_of_pod(&pod)).unwrap_or_default();
            names.extend(cgroup.pod.as_ref().map(|pod| pod.uid.clone()));
            names
        };
        if self.0.len() >= MAX_PODS {
            self.0.clear();
        }
        self.0.entry(key).or_insert_with(look_up).clone()
    }

    /// Has those looked up again that were not found: the files of a pod may come after its first process.
    pub(super) fn forget_unknown(&mut self) {
        self.0
            .retain(|_, names| names.iter().any(|name| name.contains('/')));
    }
}

fn names_of_pod(pod: &Pod) -> Vec<String> {
    vec![pod.name.clone(), format!("{}/{}", pod.namespace, pod.name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn process(cgroup: &str, names: &[&str]) -> RunningProcess {
        RunningProcess {
            pid: 7,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            cgroup: Cgroup::parse(format!("0::{cgroup}\n").as_bytes()),
        }
    }

    fn matches(criterion: fn(String) -> Criterion, value: &str, process: &RunningProcess) -> bool {
        criterion(value.to_owned()).matches(process, &mut PodNames::default())
    }

    #[test]
    fn names_are_whole_or_have_wildcards() {
        let worker = process("/", &["python3.12", "worker"]);
        for value in ["worker", "worker.py", "python3*", "w?rker", "python3.12"] {
            assert!(matches(Criterion::Name, value, &worker), "{value}");
        }
        for value in ["work", "orker", "python3", "worker.pyc", "WORKER"] {
            assert!(!matches(Criterion::Name, value, &worker), "{value}");
        }
    }

    #[test]
    fn units_are_those_of_the_host() {
        let web = process("/system.slice/web.service/inner", &[]);
        for value in ["web", "web.service", "system.slice"] {
            assert!(matches(Criterion::Unit, value, &web), "{value}");
        }
        assert!(!matches(Criterion::Unit, "we", &web));
        let path = format!("/system.slice/docker-{ID}.scope/system.slice/web.service");
        let inner = process(&path, &[]);
        assert!(!matches(Criterion::Unit, "web", &inner));
    }

    #[test]
    fn a_container_is_found_by_the_start_of_its_id() {
        let path = format!("/system.slice/docker-{ID}.scope");
        let container = process(&path, &[]);
        assert!(matches(Criterion::Container, "0123", &container));
        assert!(matches(Criterion::Container, ID, &container));
        assert!(!matches(Criterion::Container, "123", &container));
    }

    #[test]
    fn a_pod_is_found_by_its_uid() {
        let uid = "6f1c1c5e-0b0a-4d2e-9a1f-0123456789ab";
        let path = format!("/kubepods/burstable/pod{uid}/{ID}");
        let pod = process(&path, &[]);
        assert!(matches(Criterion::Pod, uid, &pod));
        assert!(!matches(Criterion::Pod, "6f1c1c5e", &pod));
    }

    #[test]
    fn names_that_could_have_been_meant_are_compared_without_what_many_have() {
        let group = Criterion::Cgroup(String::new());
        let inner = process("/system.slice/web.service/inner", &[]);
        assert_eq!(
            group.names_of(&inner, &mut PodNames::default()),
            [
                "/system.slice",
                "/system.slice/web.service",
                "/system.slice/web.service/inner"
            ]
        );
        assert!(
            group
                .names_of(&process("/", &[]), &mut PodNames::default())
                .is_empty()
        );
        assert_eq!(group.compared("/system.slice/web.service/"), "web");
        assert_eq!(
            Criterion::Unit(String::new()).compared("Web.service"),
            "web"
        );
        assert_eq!(
            Criterion::Container(String::new()).compared(ID),
            "0123456789ab"
        );
        assert_eq!(Criterion::Name(String::new()).compared("W*rker?"), "wrker");
    }

    #[test]
    fn a_control_group_has_those_below_it() {
        let inner = process("/a/b/c", &[]);
        for value in ["/a/b", "a/b", "/sys/fs/cgroup/a/b/", "/a/b/c"] {
            assert!(matches(Criterion::Cgroup, value, &inner), "{value}");
        }
        assert!(!matches(Criterion::Cgroup, "/a/bb", &inner));
        assert!(!matches(Criterion::Cgroup, "/a/b/c/d", &inner));
    }
}
