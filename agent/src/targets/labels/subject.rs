//! What labels are made from, and selectors look at.

use super::{metadata::ProcessMetadata, pods::ContainerInfo};

/// A process and its container.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Metadata of the process itself.
    pub metadata: &'a ProcessMetadata,
    /// Its container, where a source has it.
    pub container_info: Option<&'a ContainerInfo>,
}
