//! What is known of containers, remembered.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use super::{container::ContainerInfo, host_files::HostFiles, list::PodList};
use crate::process::cgroup::Cgroup;

/// How long lists are taken for new: an unknown container does not make them be asked for again
/// before.
pub const REFRESH: Duration = Duration::from_secs(5);

/// Longest time between two questions for a container that nobody has known so far.
pub const LONGEST_REFRESH: Duration = Duration::from_secs(300);

/// Most containers of which something is remembered; then all are forgotten.
const MAX_REMEMBERED: usize = 4096;

/// How long it is remembered that the host's files do not know a container, which may be older
/// than they are.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);

/// Containers that no list knows, by their ids.
pub type UnknownContainers = HashSet<String>;

/// New lists; [`None`] where there is none.
#[derive(Clone, Debug, Default)]
pub struct PodLists {
    /// What Kubernetes says.
    pub listed: Option<PodList>,
    /// What the container runtime says.
    pub running: Option<PodList>,
}

/// What was found of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// What is known.
    pub container_info: Option<ContainerInfo>,
    /// Whether no list can say more.
    pub is_complete: bool,
}

/// What is known of containers and pods.
#[derive(Debug)]
pub struct Pods {
    listed: PodList,
    running: PodList,
    host: HostFiles,
    /// Whether there is anybody who gives lists.
    has_lists: bool,
    /// When lists were last asked for.
    asked: Option<Instant>,
    /// What was looked for and was in no list.
    unknown: HashMap<String, Unknown>,
    /// What the host's files say, by the container's id or the pod's UID, and when.
    remembered: HashMap<String, (Instant, Option<ContainerInfo>)>,
}

/// A container that no list knows.
#[derive(Clone, Copy, Debug, Default)]
struct Unknown {
    /// How many lists did not know it.
    lists: u32,
    /// Before when it is not asked for again.
    not_before: Option<Instant>,
    /// Whether it was looked for since the last answer.
    is_wanted: bool,
}

impl Pods {
    /// One that knows nothing yet, and knows whether it will be given lists.
    #[must_use]
    pub fn new(host: HostFiles, has_lists: bool) -> Self {
        Self {
            listed: PodList::default(),
            running: PodList::default(),
            host,
            has_lists,
            asked: None,
            unknown: HashMap::new(),
            remembered: HashMap::new(),
        }
    }

    /// What is known of the container that a process is in.
    ///
    /// The innermost container that somebody knows counts: a container that was started in a
    /// container of a pod is not known to Kubernetes, but belongs to the pod.
    pub fn find(&mut self, cgroup: &Cgroup) -> Resolution {
        let containers = cgroup.containers.iter().rev();
        let pods = cgroup.pods.iter().rev();
        let lists = [&self.listed, &self.running];
        let container = lists.iter().find_map(|list| {
            let mut ids = containers.clone();
            ids.find_map(|container| list.container(&container.id))
        });
        let pod = lists
            .iter()
            .find_map(|list| pods.clone().find_map(|pod| list.pod(&pod.uid)));
        let is_complete = container.is_some() || (cgroup.containers.is_empty() && pod.is_some());
        let listed = match container {
            // The list of Kubernetes may have the pod, and not yet that it runs.
            Some(container_info) => ContainerInfo {
                pod: pod.or(container_info.pod),
                ..container_info
            },
            None => ContainerInfo {
                pod,
                ..ContainerInfo::default()
            },
        };
        if is_complete {
            return Resolution {
                container_info: Some(listed),
                is_complete,
            };
        }
        let may_be_listed = self.has_lists && !cgroup.pods.is_empty();
        if may_be_listed {
            self.want(cgroup);
        }
        let now = Instant::now();
        let found = containers
            .clone()
            .find_map(|container| {
                self.remember(&container.id, now, |host| host.container(container))
            })
            .or_else(|| {
                pods.clone()
                    .find_map(|pod| self.remember(&pod.uid, now, |host| host.pod(&pod.uid)))
            });
        let container_info = match (listed.pod, found) {
            // The list knows the pod better.
            (Some(pod), found) => Some(ContainerInfo {
                pod: Some(pod),
                ..found.unwrap_or_default()
            }),
            (None, found) => found,
        };
        Resolution {
            is_complete: container_info.is_some() && !may_be_listed,
            container_info,
        }
    }

    /// What lists are to be asked for, if anything now: something is unknown, and the last time is
    /// long enough ago. Whether there comes an answer or not, nothing is asked again before
    /// [`REFRESH`].
    pub fn question(&mut self, now: Instant) -> Option<UnknownContainers> {
        let is_late = |asked| now.saturating_duration_since(asked) >= REFRESH;
        if !self.asked.is_none_or(is_late) {
            return None;
        }
        let due = self.unknown.iter().filter(|(_, unknown)| {
            unknown.is_wanted && unknown.not_before.is_none_or(|time| time <= now)
        });
        let question: UnknownContainers = due.map(|(id, _)| id.clone()).collect();
        if question.is_empty() {
            return None;
        }
        self.asked = Some(now);
        Some(question)
    }

    /// Takes new lists, and says whether there are any; where there are none the old ones stay. What
    /// they do not know is asked for less and less often.
    pub fn learn(&mut self, answer: PodLists, now: Instant) -> bool {
        let PodLists { listed, running } = answer;
        let is_new = listed.is_some() || running.is_some();
        self.listed = listed.unwrap_or_else(|| std::mem::take(&mut self.listed));
        self.running = running.unwrap_or_else(|| std::mem::take(&mut self.running));
        if !is_new {
            return false;
        }
        let lists = [&self.listed, &self.running];
        self.unknown
            .retain(|id, _| lists.iter().all(|list| !list.has(id)));
        for unknown in self.unknown.values_mut() {
            if unknown.is_wanted {
                let wait = REFRESH * 2_u32.saturating_pow(unknown.lists.min(16));
                unknown.not_before = Some(now + wait.min(LONGEST_REFRESH));
                unknown.lists = unknown.lists.saturating_add(1);
                unknown.is_wanted = false;
            }
        }
        true
    }

    /// Takes notice that no list knows what a process is in.
    fn want(&mut self, cgroup: &Cgroup) {
        let container = cgroup.container().map(|container| &container.id);
        let Some(id) = container.or_else(|| cgroup.pod().map(|pod| &pod.uid)) else {
            return;
        };
        if self.unknown.len() >= MAX_REMEMBERED && !self.unknown.contains_key(id) {
            self.unknown.clear();
        }
        self.unknown.entry(id.clone()).or_default().is_wanted = true;
    }

    fn remember(
        &mut self,
        key: &str,
        now: Instant,
        look: impl FnOnce(&HostFiles) -> Option<ContainerInfo>,
    ) -> Option<ContainerInfo> {
        if let Some((since, container_info)) = self.remembered.get(key)
            && (container_info.is_some() || now.saturating_duration_since(*since) < UNKNOWN_FOR)
        {
            return container_info.clone();
        }
        let container_info = look(&self.host);
        if self.remembered.len() >= MAX_REMEMBERED {
            self.remembered.clear();
        }
        self.remembered
            .insert(key.to_owned(), (now, container_info.clone()));
        container_info
    }
}
