//! Containers and pods.

use std::{collections::BTreeMap, sync::Arc};

/// Most labels of a pod or of a container.
const MAX_LABELS: usize = 128;

/// Most bytes of a name and of a label's value; Kubernetes allows 253, 317 and 63.
pub(super) const MAX_TEXT: usize = 512;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its UID, as in the names of control groups.
    pub uid: String,
    /// Its name in its namespace.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its node, where the source has it.
    pub node: Option<String>,
    /// Its labels; none where the source does not have them.
    pub labels: BTreeMap<String, String>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerInfo {
    /// Its name in its pod, or in its runtime; [`None`] for a process of a pod that is in
    /// no named container.
    pub container: Option<String>,
    /// Its pod.
    pub pod: Option<Arc<Pod>>,
    /// Its labels in its runtime, where it is in no pod.
    pub labels: BTreeMap<String, String>,
}

/// Labels within the bounds of number and size.
pub(crate) fn bounded(
    labels: impl IntoIterator<Item = (String, Option<String>)>,
) -> BTreeMap<String, String> {
    labels
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .filter(|(name, value)| name.len() <= MAX_TEXT && value.len() <= MAX_TEXT)
        .take(MAX_LABELS)
        .collect()
}

/// The name that Kubernetes gives to containers of Docker and CRI-O,
/// `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`.
pub(super) fn kubernetes_name(name: &str) -> Option<ContainerInfo> {
    let mut parts = name.strip_prefix("k8s_")?.split('_');
    let mut part = || parts.next().filter(|part| !part.is_empty());
    let (container, name, namespace, uid) = (part()?, part()?, part()?, part()?);
    let pod = Pod {
        uid: uid.to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        ..Pod::default()
    };
    Some(ContainerInfo {
        // That is how the container that only holds a pod's namespaces is called.
        container: (container != "POD").then(|| container.to_owned()),
        pod: Some(Arc::new(pod)),
        labels: BTreeMap::new(),
    })
}
