//! The list of a node's pods and containers.
//!
//! `/pods` of the kubelet and `/api/v1/pods` of the API server give it as a `PodList` in JSON, the
//! latter possibly in pages. A container runtime adds its containers one by one.

use std::{collections::HashMap, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use thiserror::Error;

use super::container::{ContainerInfo, MAX_TEXT, Pod, bounded};

/// Most pods of a list; a node has a few hundred.
const MAX_PODS: usize = 16 << 10;

/// Most containers of a pod.
const MAX_CONTAINERS: usize = 256;

/// Annotations of mirror pods, with the UID of the static pod that control groups have.
const STATIC_UID: [&str; 2] = ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"];

/// A malformed list.
#[derive(Debug, Error)]
#[error("the list of pods is malformed")]
pub struct Damaged(#[from] serde_json::Error);

/// The pods of a node.
#[derive(Clone, Debug, Default)]
pub struct PodList {
    /// By the container's id.
    containers: HashMap<String, ContainerInfo>,
    /// By the UIDs of the pod.
    pods: HashMap<String, Arc<Pod>>,
}

impl PodList {
    /// Parses a complete list.
    ///
    /// # Errors
    ///
    /// As [`Self::read_page`].
    pub fn parse(document: &[u8]) -> Result<Self, Damaged> {
        let mut list = Self::default();
        list.read_page(document)?;
        Ok(list)
    }

    /// Adds the pods of a page, and returns its continuation token.
    ///
    /// # Errors
    ///
    /// When it is not the JSON of such a list; a malformed pod costs that pod only.
    pub fn read_page(&mut self, document: &[u8]) -> Result<Option<String>, Damaged> {
        let document: Document = serde_json::from_slice(document)?;
        let room = MAX_PODS.saturating_sub(self.pods.len());
        for item in document.items.unwrap_or_default().0.into_iter().take(room) {
            self.add(item);
        }
        let next = document.metadata.and_then(|metadata| metadata.next);
        Ok(next.filter(|next| !next.is_empty()))
    }

    /// Adds a pod by its UID, unless there are too many or it has texts that are too long.
    pub fn add_pod(&mut self, pod: &Arc<Pod>) {
        let texts = [&pod.uid, &pod.name, &pod.namespace];
        if texts.iter().all(|text| is_text(text)) && self.pods.len() < MAX_PODS {
            self.pods.insert(pod.uid.clone(), Arc::clone(pod));
        }
    }

    /// Adds a container of a pod by its id, within the same bounds; the pause container has no name.
    pub fn add_container(&mut self, id: &str, name: Option<&str>, pod: &Arc<Pod>) {
        let is_odd = !is_text(id) || name.is_some_and(|name| !is_text(name));
        if is_odd || self.containers.len() >= MAX_PODS * 2 {
            return;
        }
        let container_info = ContainerInfo {
            container: name.map(str::to_owned),
            pod: Some(Arc::clone(pod)),
            ..ContainerInfo::default()
        };
        self.containers.insert(id.to_owned(), container_info);
    }

    /// The number of pods.
    #[must_use]
    pub fn count(&self) -> usize {
        // A static pod has two UIDs.
        let known = self.pods.iter();
        known.filter(|(uid, pod)| **uid == pod.uid).count()
    }

    /// Whether there is a container with this id or a pod with this UID.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.containers.contains_key(id) || self.pods.contains_key(id)
    }

    /// The container with this id.
    #[must_use]
    pub fn container(&self, id: &str) -> Option<ContainerInfo> {
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
        if ![&name, &namespace, &uid].iter().all(|text| is_text(text)) {
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
            // As in `containerd://ID`; a container that was not created yet has none.
            let id = container.container_id.unwrap_or_default();
            let id = id.split_once("://").map_or("", |(_, id)| id);
            self.add_container(id, Some(&container.name), &pod);
        }
    }
}

/// Whether it is valid as a name, a UID or an id.
fn is_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TEXT
}

#[derive(Deserialize)]
struct Document {
    metadata: Option<Page>,
    items: Option<Items>,
}

/// The first items of a list; those beyond take no memory.
#[derive(Default)]
struct Items(Vec<Item>);

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct First;

        impl<'de> Visitor<'de> for First {
            type Value = Items;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of pods")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items, A::Error> {
                let mut items = Vec::new();
                while items.len() < MAX_PODS {
                    match list.next_element()? {
                        Some(item) => items.push(item),
                        None => return Ok(Items(items)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Items(items))
            }
        }

        deserializer.deserialize_seq(First)
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

/// Maps of text that may contain `null`.
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
