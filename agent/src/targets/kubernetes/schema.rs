//! The messages of `runtime.v1` of the Container Runtime Interface, as far as they are used.
//!
//! Repeated messages are left undecoded, so that a long response takes no more memory than it has
//! bytes, and a malformed container does not cost the others.

use std::collections::BTreeMap;

use bytes::Bytes;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListPodSandboxResponse {
    /// [`PodSandbox`] each.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PodSandbox {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) namespace: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ListContainersResponse {
    /// [`Container`] each.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) containers: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Container {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, tag = "2")]
    pub(super) pod_sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub(super) metadata: Option<ContainerMetadata>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}
