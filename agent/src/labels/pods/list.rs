//! The list of a node's pods, as `/pods` of the kubelet and `/api/v1/pods` of the API server give
//! it: a `PodList` in JSON.

use std::{collections::HashMap, sync::Arc};

use serde::Deserialize;
use thiserror::Error;

use super::{MAX_TEXT, Place, Pod, bounded};

/// Most pods of a list; a node has a few hundred.
const MAX_PODS: usize = 16 << 10;

/// Most containers of a pod.
const MAX_CONTAINERS: usize = 256;

/// Annotations of the pods that stand for static ones, with the UID that control groups have.
const STATIC_UID: [&str; 2] = ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"];

/// A list that cannot be read.
#[derive(Debug, Error)]
#[error("the list of pods is damaged")]
pub struct Damaged(#[from] serde_json::Error);

/// The pods of a node.
#[derive(Clone, Debug, Default)]
pub struct PodList {
    /// By the container's id.
    containers: HashMap<String, Place>,
    /// By the UIDs of the pod.
    pods: HashMap<String, Arc<Pod>>,
}

impl PodList {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// When it is not the JSON of such a list; what is odd in a single pod costs that pod.
    pub fn parse(document: &[u8]) -> Result<Self, Damaged> {
        let document: Document = serde_json::from_slice(document)?;
        let mut list = Self::default();
        for item in document
            .items
            .unwrap_or_default()
            .into_iter()
            .take(MAX_PODS)
        {
            list.add(item);
        }
        Ok(list)
    }

    /// The container with this id.
    #[must_use]
    pub fn container(&self, id: &str) -> Option<Place> {
        self.containers.get(id).cloned()
    }

    /// The pod with this UID.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<Arc<Pod>> {
        self.pods.get(uid).cloned()
    }

    fn add(&mut self, item: Item) {
        let Metadata {
            name,
            namespace,
            uid,
            labels,
            annotations,
        } = item.metadata;
        if [&name, &namespace, &uid]
            .iter()
            .any(|it| it.is_empty() || it.len() > MAX_TEXT)
        {
            return;
        }
        let annotations = annotations.unwrap_or_default();
        let uids: Vec<String> = STATIC_UID
            .iter()
            .filter_map(|key| annotations.get(*key)?.clone())
            .filter(|uid| uid.len() <= MAX_TEXT)
            .chain([uid.clone()])
            .collect();
        let pod = Arc::new(Pod {
            uid,
            name,
            namespace,
            node: item
                .spec
                .unwrap_or_default()
                .node_name
                .filter(|node| !node.is_empty()),
            labels: bounded(labels.unwrap_or_default()),
        });
        self.pods
            .extend(uids.into_iter().map(|uid| (uid, Arc::clone(&pod))));
        let status = item.status.unwrap_or_default();
        let statuses = [status.containers, status.initial, status.ephemeral];
        let containers = statuses.into_iter().flatten().flatten();
        for container in containers.take(MAX_CONTAINERS) {
            // As in `containerd://ID`; a container that has not been created has none.
            let id = container.container_id.unwrap_or_default();
            let id = id.split_once("://").map_or("", |(_, id)| id);
            if id.is_empty() || id.len() > MAX_TEXT || container.name.len() > MAX_TEXT {
                continue;
            }
            let place = Place {
                container: Some(container.name),
                pod: Some(Arc::clone(&pod)),
                ..Place::default()
            };
            self.containers.insert(id.to_owned(), place);
        }
    }
}

#[derive(Deserialize)]
struct Document {
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

/// Maps of text, in which `null` is let pass.
type Texts = HashMap<String, Option<String>>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    labels: Option<Texts>,
    annotations: Option<Texts>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(rename = "containerStatuses")]
    containers: Option<Vec<ContainerStatus>>,
    #[serde(rename = "initContainerStatuses")]
    initial: Option<Vec<ContainerStatus>>,
    #[serde(rename = "ephemeralContainerStatuses")]
    ephemeral: Option<Vec<ContainerStatus>>,
}

#[derive(Deserialize)]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}
