//! Metadata of containers in the state of the container runtimes.
//!
//! containerd has a bundle for each running container, with annotations of its CRI plugin; Docker a
//! description; Podman and CRI-O one list of all. The names that CRI-O and Docker give to containers
//! of Kubernetes contain their pods.

use std::{collections::HashMap, path::Path, sync::Arc};

use serde::{Deserialize, de::DeserializeOwned};

use super::container::{ContainerInfo, MAX_TEXT, Pod, bounded, kubernetes_name};
use crate::process::{cgroup::ContainerRuntime, open_on_host};

/// Most bytes of a file.
const MAX_BYTES: u64 = 8 << 20;

/// Folders of the bundles of containerd: its own, that of k3s and that of `MicroK8s`.
const CONTAINERD: [&str; 3] = [
    "run/containerd/io.containerd.runtime.v2.task",
    "run/k3s/containerd/io.containerd.runtime.v2.task",
    "var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task",
];

/// The namespaces of Kubernetes and of nerdctl.
const CONTAINERD_NAMESPACES: [&str; 2] = ["k8s.io", "default"];

/// The lists of Podman and CRI-O; transient containers have one of their own.
const STORAGE: [&str; 3] = [
    "var/lib/containers/storage/overlay-containers/containers.json",
    "var/lib/containers/storage/overlay-containers/volatile-containers.json",
    "run/containers/storage/overlay-containers/volatile-containers.json",
];

/// The container with this id.
pub(super) fn container(
    root: &Path,
    id: &str,
    runtime: Option<ContainerRuntime>,
) -> Option<ContainerInfo> {
    // The id becomes part of a path.
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (containerd, docker, storage) = (
        || containerd(root, id),
        || docker(root, id),
        || storage(root, id),
    );
    match runtime {
        Some(ContainerRuntime::Containerd) => containerd(),
        Some(ContainerRuntime::Docker) => docker(),
        Some(ContainerRuntime::Podman | ContainerRuntime::CriO) => storage(),
        // Their ids are names.
        Some(ContainerRuntime::Lxc | ContainerRuntime::Nspawn) => None,
        None => containerd().or_else(docker).or_else(storage),
    }
}

fn containerd(root: &Path, id: &str) -> Option<ContainerInfo> {
    /// A part of the bundle's `config.json`.
    #[derive(Deserialize)]
    struct Bundle {
        annotations: HashMap<String, Option<String>>,
    }

    let bundle: Bundle = CONTAINERD.iter().find_map(|folder| {
        CONTAINERD_NAMESPACES.iter().find_map(|namespace| {
            let folder = root.join(folder).join(namespace).join(id);
            read(&folder.join("config.json"))
        })
    })?;
    let text = |name: &str| {
        let text = bundle.annotations.get(name)?.clone()?;
        (!text.is_empty() && text.len() <= MAX_TEXT).then_some(text)
    };
    let pod = Pod {
        uid: text("io.kubernetes.cri.sandbox-uid").unwrap_or_default(),
        name: text("io.kubernetes.cri.sandbox-name").unwrap_or_default(),
        namespace: text("io.kubernetes.cri.sandbox-namespace").unwrap_or_default(),
        ..Pod::default()
    };
    let container = text("io.kubernetes.cri.container-name").or_else(|| text("nerdctl/name"));
    let pod = (!pod.name.is_empty()).then(|| Arc::new(pod));
    (container.is_some() || pod.is_some()).then_some(ContainerInfo {
        container,
        pod,
        ..ContainerInfo::default()
    })
}

fn docker(root: &Path, id: &str) -> Option<ContainerInfo> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Description {
        name: String,
        config: Option<Config>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Config {
        labels: Option<HashMap<String, Option<String>>>,
    }

    let file = root.join("var/lib/docker/containers").join(id);
    let description: Description = read(&file.join("config.v2.json"))?;
    let name = description.name.trim_start_matches('/');
    let labels = description.config.and_then(|config| config.labels);
    named(name).map(|container_info| {
        kubernetes_name(name).unwrap_or(ContainerInfo {
            labels: bounded(labels.unwrap_or_default()),
            ..container_info
        })
    })
}

fn storage(root: &Path, id: &str) -> Option<ContainerInfo> {
    #[derive(Deserialize)]
    struct Stored {
        id: String,
        names: Option<Vec<String>>,
    }

    let stored: Stored = STORAGE.iter().find_map(|file| {
        let list: Vec<Stored> = read(&root.join(file))?;
        list.into_iter().find(|stored| stored.id == id)
    })?;
    let names = stored.names?;
    let name = names.first()?;
    kubernetes_name(name).or_else(|| named(name))
}

fn named(name: &str) -> Option<ContainerInfo> {
    (!name.is_empty() && name.len() <= MAX_TEXT).then(|| ContainerInfo {
        container: Some(name.to_owned()),
        ..ContainerInfo::default()
    })
}

/// The parsed contents of a file, if it exists and is valid.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = open_on_host(path).ok()?.contents(MAX_BYTES).ok()?;
    serde_json::from_slice(&text).ok()
}
