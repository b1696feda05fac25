//! The container runtime, over its socket, by the Container Runtime Interface of Kubernetes.
//!
//! It has containers from their start on, with the labels of their pods.

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

/// gRPC methods; Kubernetes requires `runtime.v1` from 1.26 on.
const SANDBOXES: &str = "/runtime.v1.RuntimeService/ListPodSandbox";
const CONTAINERS: &str = "/runtime.v1.RuntimeService/ListContainers";

/// Timeout of a request, which is served from memory on this host.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of a response; a container takes about a thousand.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Most pods and most containers of a list.
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

    fn is_available(&self) -> bool {
        self.sockets.iter().any(|socket| socket.exists())
    }

    async fn fetch(&self) -> Result<PodList, FetchError> {
        let mut result = Ok(PodList::default());
        for socket in self.sockets.iter().filter(|socket| socket.exists()) {
            let client = Client::on_socket(socket, HttpProtocol::Http2, TIMEOUT);
            result = request(&client.with_max_response_bytes(MAX_ANSWER_BYTES)).await;
            // The service at a socket may not implement the interface, as Docker's own containerd.
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
                "only root may connect to the container runtime: name another socket as `runtime` in \
                 `kubernetes`, or `off`",
            ),
            HttpErrorKind::Unsupported => {
                Some("it must support runtime.v1, as containerd does from 1.6 on")
            }
            _ => None,
        }
    }
}

async fn request(client: &Client) -> Result<PodList, FetchError> {
    // A request without a filter is an empty message. Containers first: their pods exist by then.
    let nothing = grpc::frame(&[], false).unwrap_or_default();
    let containers = grpc::call(client, CONTAINERS, &nothing).await?;
    let sandboxes = grpc::call(client, SANDBOXES, &nothing).await?;
    spawn_blocking(move || read(&sandboxes, &containers)).await?
}

/// Parses both responses; a malformed item costs that item only.
///
/// # Errors
///
/// When a response is none of that service.
pub fn read(sandboxes: &Bytes, containers: &Bytes) -> Result<PodList, FetchError> {
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
