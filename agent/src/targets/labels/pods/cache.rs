//! Cache of metadata of containers and pods.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use super::{container::ContainerInfo, host_files::HostFiles, list::PodList};
use crate::process::cgroup::Cgroup;

/// Least time between two requests.
pub const REFRESH: Duration = Duration::from_secs(5);

/// Longest time between two requests for a container that was in no list so far.
pub const LONGEST_REFRESH: Duration = Duration::from_secs(300);

/// Most entries; then all are evicted.
const MAX_ENTRIES: usize = 4096;

/// How long absence in the host's files is cached: a container may be older than its files.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);

/// Ids of containers that are in no list.
pub type UnknownContainers = HashSet<String>;

/// New lists; [`None`] where there is none.
#[derive(Clone, Debug, Default)]
pub struct PodLists {
    /// The list of Kubernetes.
    pub listed: Option<PodList>,
    /// The list of the container runtime.
    pub running: Option<PodList>,
}

/// The metadata found for a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// The metadata.
    pub container_info: Option<ContainerInfo>,
    /// Whether no list can add to it.
    pub is_complete: bool,
}

/// Cache of metadata of containers and pods.
#[derive(Debug)]
pub struct Pods {
    listed: PodList,
    running: PodList,
    host: HostFiles,
    /// Whether there is a source of lists.
    has_lists: bool,
    /// Time of the last request.
    requested: Option<Instant>,
    /// Containers that were looked up and are in no list.
    unknown: HashMap<String, Unknown>,
    /// Results from the host's files, by container id or pod UID, with their time.
    from_files: HashMap<String, (Instant, Option<ContainerInfo>)>,
}

/// A container that is in no list.
#[derive(Clone, Copy, Debug, Default)]
struct Unknown {
    /// Lists that did not have it.
    lists: u32,
    /// Earliest time of the next request.
    not_before: Option<Instant>,
    /// Whether it was looked up since the last list.
    was_looked_up: bool,
}

impl Pods {
    /// An empty cache; `has_lists` is whether there is a source of lists.
    #[must_use]
    pub fn new(host: HostFiles, has_lists: bool) -> Self {
        Self {
            listed: PodList::default(),
            running: PodList::default(),
            host,
            has_lists,
            requested: None,
            unknown: HashMap::new(),
            from_files: HashMap::new(),
        }
    }

    /// The metadata of the container of a process.
    ///
    /// The outermost container counts: those inside are in no list of Kubernetes, and may have been given
    /// the name of another pod's. Containers of a user are not looked up: whoever manages control groups
    /// of his own can give them any name.
    pub fn find(&mut self, cgroup: &Cgroup) -> Resolution {
        if cgroup.is_of_user {
            return Resolution {
                container_info: None,
                is_complete: true,
            };
        }
        let (outermost, around) = (cgroup.container(), cgroup.pod.as_ref());
        let lists = [&self.listed, &self.running];
        let container = outermost
            .and_then(|container| lists.iter().find_map(|list| list.container(&container.id)));
        let pod = around.and_then(|pod| lists.iter().find_map(|list| list.pod(&pod.uid)));
        let is_complete = container.is_some() || (outermost.is_none() && pod.is_some());
        let listed = match container {
            // The list of Kubernetes may have the pod but not yet its running containers.
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
        let may_be_listed = self.has_lists && around.is_some();
        if may_be_listed {
            self.note_unknown(cgroup);
        }
        let now = Instant::now();
        let found = outermost
            .and_then(|container| {
                self.look_up_host_files(&container.id, now, |host| host.container(container))
            })
            .or_else(|| {
                around.and_then(|pod| {
                    self.look_up_host_files(&pod.uid, now, |host| host.pod(&pod.uid))
                })
            });
        let container_info = match (listed.pod, found) {
            // The list has more of the pod.
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

    /// The containers for which to request lists now, if any: at most once per [`REFRESH`], whether
    /// the request succeeds or not.
    pub fn next_request(&mut self, now: Instant) -> Option<UnknownContainers> {
        let is_late = |time| now.saturating_duration_since(time) >= REFRESH;
        if !self.requested.is_none_or(is_late) {
            return None;
        }
        let due = self.unknown.iter().filter(|(_, unknown)| {
            unknown.was_looked_up && unknown.not_before.is_none_or(|time| time <= now)
        });
        let containers: UnknownContainers = due.map(|(id, _)| id.clone()).collect();
        if containers.is_empty() {
            return None;
        }
        self.requested = Some(now);
        Some(containers)
    }

    /// Replaces the lists by new ones; returns whether there are any. Containers that they do not have
    /// are requested with growing intervals.
    pub fn update(&mut self, lists: PodLists, now: Instant) -> bool {
        let PodLists { listed, running } = lists;
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
            if unknown.was_looked_up {
                let wait = REFRESH * 2_u32.saturating_pow(unknown.lists.min(16));
                unknown.not_before = Some(now + wait.min(LONGEST_REFRESH));
                unknown.lists = unknown.lists.saturating_add(1);
                unknown.was_looked_up = false;
            }
        }
        true
    }

    /// Notes that the container of a process is in no list.
    fn note_unknown(&mut self, cgroup: &Cgroup) {
        let container = cgroup.container().map(|container| &container.id);
        let Some(id) = container.or_else(|| cgroup.pod.as_ref().map(|pod| &pod.uid)) else {
            return;
        };
        if self.unknown.len() >= MAX_ENTRIES && !self.unknown.contains_key(id) {
            self.unknown.clear();
        }
        self.unknown.entry(id.clone()).or_default().was_looked_up = true;
    }

    fn look_up_host_files(
        &mut self,
        key: &str,
        now: Instant,
        look: impl FnOnce(&HostFiles) -> Option<ContainerInfo>,
    ) -> Option<ContainerInfo> {
        if let Some((since, container_info)) = self.from_files.get(key)
            && (container_info.is_some() || now.saturating_duration_since(*since) < UNKNOWN_FOR)
        {
            return container_info.clone();
        }
        let container_info = look(&self.host);
        if self.from_files.len() >= MAX_ENTRIES {
            self.from_files.clear();
        }
        self.from_files
            .insert(key.to_owned(), (now, container_info.clone()));
        container_info
    }
}
