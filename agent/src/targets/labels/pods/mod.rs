//! Names and labels of containers and their pods.
//!
//! There are three sources, in this order. The list of a node's pods ([`PodList`]), from the API
//! server or the kubelet, has everything but needs credentials. The container runtime has such a
//! list too, and has a new container first. Files of the host ([`HostFiles`]) need no request: the
//! names of kubelet's log files and the state of the runtimes. [`crate::targets::kubernetes`]
//! requests lists for [`UnknownContainers`] and returns [`PodLists`].
//!
//! Invariants: all of it is untrusted and bounded; a source that is absent or damaged costs its names
//! and nothing else; unknown containers cause at most one request per refresh interval, and a
//! container that no source has ever fewer.

mod cache;
mod container;
mod host_files;
mod list;
mod logs;
mod runtimes;
#[cfg(test)]
mod tests;

pub use cache::{PodLists, Pods, Resolution, UnknownContainers};
pub(crate) use container::bounded;
pub use container::{ContainerInfo, Pod};
pub use host_files::HostFiles;
pub use list::{Damaged, PodList};
