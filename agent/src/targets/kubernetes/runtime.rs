//! The container runtime, asked as the kubelet asks it: over a socket, by the Container Runtime
//! Interface.
//!
//! It knows a container from its start on, and labels of pods as the kubelet has told them to it.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use prost::Message as _;
use tokio::task::spawn_blocking;

use super::{
    fetch::{Fetch, FetchError},
    schema::{Container, ListContainersResponse, ListPodSandboxResponse, PodSandbox},
};
use crate::{
    http_client::{Client, HttpErrorKind, HttpProtocol, grpc},
    targets::labels::pods::{Pod, PodList, bounded},
};

/// What is called; `runtime.v1` is what Kubernetes wants from 1.26 on.
const SANDBOXES: &str = "/runtime.v1.RuntimeService/ListPodSandbox";
const CONTAINERS: &str = "/runtime.v1.RuntimeService/ListContainers";

/// For how long an answer is waited for; it comes from this machine's memory.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of an answer; a container takes some thousand.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Most pods and most containers that are looked at.
const MAX_ITEMS: usize = 16 << 10;

/// Labels that the kubelet adds to those of a pod.
const ADDED: &str = "io.kubernetes.pod.";

/// The container runtime.
pub(super) struct Runtime {
    sockets: Vec<PathBuf>,
}

impl Runtime {
    pub(super) fn new(sockets: Vec<PathBuf>) -> Self {
        Self { sockets }
    }
}

impl Fetch for Runtime {
    const NAME: &'static str = "runtime";

    fn is_there(&self) -> bool {
        self.sockets.iter().any(|socket| socket.exists())
    }

    async fn fetch(&self) -> Result<PodList, FetchError> {
        let mut result = Ok(PodList::default());
        for socket in self.sockets.iter().filter(|socket| socket.exists()) {
            let client = Client::on_socket(socket, HttpProtocol::Http2, TIMEOUT);
            result = ask(&client.with_max_response_bytes(MAX_ANSWER_BYTES)).await;
            // Who listens there may be no runtime of Kubernetes, as Docker's own containerd is not.
            let is_another = |error: &FetchError| error.kind() == HttpErrorKind::Unsupported;
            if !result.as_ref().is_err_and(is_another) {
                break;
            }
        }
        result
    }

    fn advice(kind: HttpErrorKind) -> Option<&'static str> {
        match kind {
            HttpErrorKind::Unreachable => Some(
                "only root may ask the container runtime: name another socket as `runtime` in \
                 `kubernetes`, or `off`",
            ),
            HttpErrorKind::Unsupported => {
                Some("it must speak runtime.v1, as containerd from 1.6 on does")
            }
            _ => None,
        }
    }
}

async fn ask(client: &Client) -> Result<PodList, FetchError> {
    // A request without a filter is a message without a field. Containers first: their pods are
    // there by then.
    let nothing = grpc::frame(&[], false).unwrap_or_default();
    let containers = grpc::call(client, CONTAINERS, &nothing).await?;
    let sandboxes = grpc::call(client, SANDBOXES, &nothing).await?;
    spawn_blocking(move || read(&sandboxes, &containers)).await?
}

/// Reads both answers; what is odd in a single item costs that item.
pub(super) fn read(sandboxes: &Bytes, containers: &Bytes) -> Result<PodList, FetchError> {
    let sandboxes = ListPodSandboxResponse::decode(sandboxes.clone())?.items;
    let containers = ListContainersResponse::decode(containers.clone())?.containers;
    let mut list = PodList::default();
    let mut pods = HashMap::new();
    for item in sandboxes.into_iter().take(MAX_ITEMS) {
        let Ok(sandbox) = PodSandbox::decode(item) else {
            continue;
        };
        let Some(metadata) = sandbox.metadata else {
            continue;
        };
        let own = sandbox.labels.into_iter();
        let own = own.filter(|(name, _)| !name.starts_with(ADDED));
        let pod = Arc::new(Pod {
            uid: metadata.uid,
            name: metadata.name,
            namespace: metadata.namespace,
            node: None,
            labels: bounded(own.map(|(name, value)| (name, Some(value)))),
        });
        list.add_pod(&pod);
        list.add_container(&sandbox.id, None, &pod);
        pods.insert(sandbox.id, pod);
    }
    for item in containers.into_iter().take(MAX_ITEMS) {
        let Ok(container) = Container::decode(item) else {
            continue;
        };
        let name = container.metadata.map(|metadata| metadata.name);
        if let (Some(name), Some(pod)) = (name, pods.get(&container.pod_sandbox_id)) {
            list.add_container(&container.id, Some(&name), pod);
        }
    }
    Ok(list)
}
