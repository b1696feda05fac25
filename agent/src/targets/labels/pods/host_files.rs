//! Metadata of containers in files of the host.

use std::path::PathBuf;

use super::{container::ContainerInfo, logs, runtimes};
use crate::process::cgroup::Container;

/// The files of the host.
#[derive(Clone, Debug)]
pub struct HostFiles {
    root: PathBuf,
}

impl HostFiles {
    /// The files below `root`: `/`, or for an agent in a container the root of its host, such as
    /// `/proc/1/root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The metadata of a container.
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

    /// The metadata of a pod.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<ContainerInfo> {
        logs::pod(&self.root, uid)
    }
}
