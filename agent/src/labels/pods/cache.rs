//! What is known of containers, remembered.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::{Damaged, Fetch, FetchError, HostFiles, Place, PodList};
use crate::process::cgroup::Cgroup;
use thiserror::Error;

/// How long a list of pods is taken for new: an unknown pod does not make it be fetched again
/// before.
pub const REFRESH: Duration = Duration::from_secs(5);

/// Most containers of which the host's files are remembered; then all are forgotten.
const MAX_REMEMBERED: usize = 4096;

/// How long it is remembered that the host's files do not know a container, which may be older
/// than they are.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);

/// Why the list of pods is not new.
#[derive(Debug, Error)]
pub enum RefreshError {
    /// It was not fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It cannot be read.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

/// What is known of containers and pods.
#[derive(Debug)]
pub struct Pods {
    list: PodList,
    host: HostFiles,
    /// When a list was last asked for.
    asked: Option<Instant>,
    /// Whether something has been looked for since then that was not in it.
    is_missing: bool,
    /// What the host's files say, by the container's id or the pod's UID, and when.
    remembered: HashMap<String, (Instant, Option<Place>)>,
}

impl Pods {
    /// One that knows nothing yet.
    #[must_use]
    pub fn new(host: HostFiles) -> Self {
        Self {
            list: PodList::default(),
            host,
            asked: None,
            is_missing: false,
            remembered: HashMap::new(),
        }
    }

    /// What is known of the container that a process is in.
    ///
    /// The innermost container that somebody knows counts: a container that was started in a
    /// container of a pod is not known to Kubernetes, but belongs to the pod.
    pub fn find(&mut self, cgroup: &Cgroup) -> Option<Place> {
        let containers = cgroup.containers.iter().rev();
        let listed = containers
            .clone()
            .find_map(|container| self.list.container(&container.id))
            .or_else(|| {
                let pods = cgroup.pods.iter().rev();
                let pod = pods.clone().find_map(|pod| self.list.pod(&pod.uid))?;
                Some(Place {
                    pod: Some(pod),
                    ..Place::default()
                })
            });
        if let Some(listed) = &listed
            && listed.container.is_some()
        {
            return Some(listed.clone());
        }
        self.is_missing |= !cgroup.pods.is_empty();
        let now = Instant::now();
        let found = containers
            .clone()
            .find_map(|container| {
                self.remember(&container.id, now, |host| host.container(container))
            })
            .or_else(|| {
                let pods = cgroup.pods.iter().rev();
                pods.clone()
                    .find_map(|pod| self.remember(&pod.uid, now, |host| host.pod(&pod.uid)))
            });
        match (listed, found) {
            // The list knows the pod better.
            (Some(listed), Some(found)) => Some(Place {
                container: found.container,
                ..listed
            }),
            (listed, found) => listed.or(found),
        }
    }

    /// Whether the list of pods should be fetched: something is missing, and the last time is
    /// long enough ago.
    #[must_use]
    pub fn wants_list(&self, now: Instant) -> bool {
        self.is_missing
            && self
                .asked
                .is_none_or(|asked| now.saturating_duration_since(asked) >= REFRESH)
    }

    /// Fetches the list of pods. Whether it works or not, it is not asked for again before
    /// [`REFRESH`]; the old list stays until there is a new one.
    ///
    /// # Errors
    ///
    /// When it could not be fetched or read.
    pub async fn refresh(&mut self, from: &impl Fetch) -> Result<(), RefreshError> {
        self.asked = Some(Instant::now());
        let document = from.fetch().await?;
        self.list = PodList::parse(&document)?;
        self.is_missing = false;
        Ok(())
    }

    fn remember(
        &mut self,
        key: &str,
        now: Instant,
        look: impl FnOnce(&HostFiles) -> Option<Place>,
    ) -> Option<Place> {
        if let Some((since, place)) = self.remembered.get(key)
            && (place.is_some() || now.saturating_duration_since(*since) < UNKNOWN_FOR)
        {
            return place.clone();
        }
        let place = look(&self.host);
        if self.remembered.len() >= MAX_REMEMBERED {
            self.remembered.clear();
        }
        self.remembered.insert(key.to_owned(), (now, place.clone()));
        place
    }
}
