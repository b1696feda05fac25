//! Files of the host that say what a container is called.

use std::path::PathBuf;

use super::{container::ContainerInfo, logs, runtimes};
use crate::process::cgroup::Container;

/// The files of the host.
#[derive(Clone, Debug)]
pub struct HostFiles {
    root: PathBuf,
}

impl HostFiles {
    /// Those below `root`: `/`, or where an agent in a container finds its host's files, as in
    /// `/proc/1/root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// What is known of a container.
    #[must_use]
    pub fn container(&self, container: &Container) -> Option<ContainerInfo> {
        let Container { id, runtime } = container;
        let running = runtimes::container(&self.root, id, *runtime);
        if running
            .as_ref()
            .is_some_and(|container_info| container_info.pod.is_some())
        {
            return running;
        }
        logs::container(&self.root, id).or(running)
    }

    /// What is known of a pod.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<ContainerInfo> {
        logs::pod(&self.root, uid)
    }
}
