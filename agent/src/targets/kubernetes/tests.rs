//! Clients of the API server, the kubelet and container runtimes, with mock servers that are as
//! strict as the real ones, or stricter.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use bytes::Bytes;
use collector_doubles::server::{
    Received, Reply, Server, grpc_message, grpc_status, status, with_header,
};
use proptest::prelude::{Strategy, any, prop, proptest};
use prost::Message as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    By, Config, Lists, PodMetadata,
    runtime::read,
    schema::{
        Container, ContainerMetadata, ListContainersResponse, ListPodSandboxResponse, PodSandbox,
        PodSandboxMetadata,
    },
};
use crate::{
    http_client::{
        Authentication, HttpConfig, SecretSource,
        support::certificates::{acceptor, authority, trusted},
    },
    targets::labels::pods::{PodList, PodLists, UnknownContainers},
};

const ID: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";
const OTHER: &str = "77aabbccddeeff00112233445566778899aabbccddeeff001122334455667788";
const UID: &str = "8c1f3a9e-7b2d-4f53-9a01-2b7cf2a1d9e4";

/// The continuation token of a page, with characters that must be escaped in a URL.
const CONTINUE: &str = "a+b/c=&d";

/// A pod with a container of this id.
fn pod(name: &str, id: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "prod", "uid": format!("{name}-{UID}")},
        "spec": {"nodeName": "node-1"},
        "status": {
            "containerStatuses": [{"name": "web", "containerID": format!("containerd://{id}")}]
        }
    })
}

/// A list of pods, with its continuation token.
fn list(pods: &[Value], next: &str) -> Reply {
    let list = json!({"kind": "PodList", "items": pods, "metadata": {"continue": next}});
    status(200, &list.to_string())
}

/// An error response of the API server.
fn refusal(code: u16, message: &str) -> Reply {
    let refusal = json!({"kind": "Status", "code": code, "message": message});
    status(code, &refusal.to_string())
}

/// The parameters of a URL, decoded.
fn parameters(query: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            });
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
    pairs
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

/// The error response to a request without a valid token or without the permission.
fn refused(received: &Received) -> Option<Reply> {
    match received.header("authorization") {
        "Bearer good" => None,
        "Bearer weak" => Some(refusal(403, "pods is forbidden")),
        _ => Some(refusal(401, "Unauthorized")),
    }
}

/// An API server with two pages of pods.
fn strict_api_server(received: &Received) -> Reply {
    if received.path != "/api/v1/pods" {
        return refusal(404, "not found");
    }
    if let Some(refusal) = refused(received) {
        return refusal;
    }
    let mut parameters = parameters(&received.query);
    if parameters.remove("fieldSelector").as_deref() != Some("spec.nodeName=node-1") {
        return refusal(403, "pods of other nodes are forbidden");
    }
    if parameters.remove("limit").is_none_or(|limit| limit == "0") {
        return refusal(400, "no limit");
    }
    let version = parameters.remove("resourceVersion");
    match (parameters.remove("continue"), version) {
        (None, Some(version)) if version == "0" => list(&[pod("one", ID)], CONTINUE),
        (Some(next), None) if next == CONTINUE => list(&[pod("two", OTHER)], ""),
        other => refusal(400, &format!("{other:?}")),
    }
}

/// A kubelet.
fn strict_kubelet(received: &Received) -> Reply {
    if received.path != "/pods" || !received.query.is_empty() {
        return status(404, "404 page not found");
    }
    refused(received).unwrap_or_else(|| list(&[pod("one", ID)], ""))
}

/// A server with lists of pods, behind TLS, and its client.
struct TestClient {
    server: Server,
    names: PodMetadata,
    folder: TempDir,
}

impl TestClient {
    async fn start(by: By, check: fn(&Received) -> Reply, token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = authority();
        let tls = Some(acceptor(&authority, None, "http/1.1"));
        let server = Server::start_at("127.0.0.1:0".parse().unwrap(), check, tls).await;
        let mut http = HttpConfig::new(format!("https://{}", server.address));
        http.tls = trusted(folder.path(), &authority);
        let file = folder.path().join("token");
        fs::write(&file, token).unwrap();
        http.authentication = Authentication::Bearer(SecretSource::File(file));
        let lists = Some(Lists { by, http });
        let sockets = vec![folder.path().join("runtime.sock")];
        let names = PodMetadata::start(&Config { lists, sockets }).unwrap();
        Self {
            server,
            names,
            folder,
        }
    }

    async fn api_server(token: &str) -> Self {
        let node = "node-1".to_owned();
        Self::start(By::ApiServer { node }, strict_api_server, token).await
    }

    async fn request(&mut self) -> PodLists {
        request(&mut self.names, ID).await
    }

    /// Repeats the request until there is a list: after a failure a source is not used for a while.
    async fn request_until_listed(&mut self) -> PodList {
        for _ in 0..1_000 {
            if let Some(list) = self.request().await.listed {
                return list;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it never came: {:?}", self.names.status());
    }

    /// Number of failures by kind.
    fn failures(&self) -> BTreeMap<&'static str, u64> {
        self.names.status()[0].failures.clone()
    }
}

async fn request(names: &mut PodMetadata, id: &str) -> PodLists {
    names.request(UnknownContainers::from([id.to_owned()]));
    names.next().await
}

#[tokio::test]
async fn the_api_server_returns_the_pods_of_the_node_in_pages() {
    let mut client = TestClient::api_server("good\n").await;
    let list = client.request().await.listed.unwrap();
    assert_eq!(list.count(), 2);
    for (id, name) in [(ID, "one"), (OTHER, "two")] {
        let place = list.container(id).unwrap();
        assert_eq!(place.pod.unwrap().name, name);
    }
    // One connection for both pages.
    assert_eq!(client.server.connections(), 1);
    let status = &client.names.status()[0];
    assert_eq!((status.source, status.requests), ("api_server", 1));
    assert_eq!(status.pods, 2);
}

#[tokio::test]
async fn a_list_with_an_expired_token_is_restarted() {
    let mut client = TestClient::api_server("good").await;
    let first = list(&[pod("gone", OTHER)], CONTINUE);
    client.server.enqueue_reply(first);
    client
        .server
        .enqueue_reply(refusal(410, "The provided continue parameter is too old"));
    let list = client.request().await.listed.unwrap();
    assert_eq!(list.container(OTHER).unwrap().pod.unwrap().name, "two");
    assert!(client.failures().is_empty());
}

#[tokio::test]
async fn an_endless_list_is_abandoned() {
    fn endless(_: &Received) -> Reply {
        list(&[pod("one", ID)], CONTINUE)
    }
    let node = "node-1".to_owned();
    let mut client = TestClient::start(By::ApiServer { node }, endless, "good").await;
    assert!(client.request().await.listed.is_none());
    assert_eq!(client.failures(), [("too_large", 1)].into());
}

#[tokio::test]
async fn a_replaced_token_is_used_at_once() {
    let mut client = TestClient::api_server("old").await;
    assert!(client.request().await.listed.is_none());
    assert_eq!(client.failures(), [("unauthorized", 1)].into());
    fs::write(client.folder.path().join("token"), "good").unwrap();
    assert_eq!(client.request_until_listed().await.count(), 2);
}

#[tokio::test]
async fn missing_permissions_are_failures() {
    let mut client = TestClient::api_server("weak").await;
    assert!(client.request().await.listed.is_none());
    assert_eq!(client.failures(), [("forbidden", 1)].into());
    // Without a token there is no request.
    let mut client = TestClient::api_server("").await;
    assert!(client.request().await.listed.is_none());
    assert_eq!(client.failures(), [("credentials", 1)].into());
    assert_eq!(client.server.connections(), 0);
}

#[tokio::test]
async fn retry_after_is_respected() {
    let mut client = TestClient::api_server("good").await;
    client
        .server
        .enqueue_reply(with_header(429, "retry-after", "3600"));
    for _ in 0..3 {
        assert!(client.request().await.listed.is_none());
    }
    assert_eq!(client.failures(), [("throttled", 1)].into());
    assert!(client.server.received().is_empty());
}

#[tokio::test]
async fn the_kubelet_returns_its_pods() {
    let mut client = TestClient::start(By::Kubelet, strict_kubelet, "good").await;
    assert_eq!(client.request().await.listed.unwrap().count(), 1);
    let mut client = TestClient::start(By::Kubelet, strict_kubelet, "weak").await;
    assert!(client.request().await.listed.is_none());
    assert_eq!(client.failures(), [("forbidden", 1)].into());
}

#[tokio::test]
async fn an_invalid_list_is_a_failure() {
    let mut client = TestClient::api_server("good").await;
    client.server.enqueue_reply(status(200, "<html>"));
    assert!(client.request().await.listed.is_none());
    assert_eq!(client.failures(), [("connection_closed", 1)].into());
    assert_eq!(client.request_until_listed().await.count(), 2);
}

/// A message of gRPC whose fields are those of [`runtime.v1`], of which only some are defined here.
fn sandbox(id: &str) -> PodSandbox {
    PodSandbox {
        id: id.to_owned(),
        metadata: Some(PodSandboxMetadata {
            name: "shop".to_owned(),
            uid: UID.to_owned(),
            namespace: "prod".to_owned(),
        }),
        labels: [
            ("app".to_owned(), "shop".to_owned()),
            ("io.kubernetes.pod.name".to_owned(), "shop".to_owned()),
        ]
        .into(),
    }
}

fn sandboxes() -> Vec<u8> {
    let items = vec![sandbox(OTHER).encode_to_vec().into()];
    ListPodSandboxResponse { items }.encode_to_vec()
}

fn containers() -> Vec<u8> {
    let container = |id: &str, name: &str, sandbox: &str| Container {
        id: id.to_owned(),
        pod_sandbox_id: sandbox.to_owned(),
        metadata: Some(ContainerMetadata {
            name: name.to_owned(),
        }),
    };
    let containers = [container(ID, "web", OTHER), container("c", "c", "gone")];
    let mut containers = containers.map(|it| it.encode_to_vec().into()).to_vec();
    // A malformed one.
    containers.push(Bytes::from_static(b"\x0a\xff"));
    ListContainersResponse { containers }.encode_to_vec()
}

/// A container runtime.
fn strict_runtime(received: &Received) -> Reply {
    let is_grpc = received.header("te") == "trailers"
        && received.header("content-type") == "application/grpc";
    // A message without fields, not compressed.
    if !is_grpc || *received.body != [0; 5] || !received.header("authorization").is_empty() {
        return grpc_status(3, "not what is asked here");
    }
    match &*received.path {
        "/runtime.v1.RuntimeService/ListPodSandbox" => grpc_message(&sandboxes()),
        "/runtime.v1.RuntimeService/ListContainers" => grpc_message(&containers()),
        _ => grpc_status(12, "unknown method"),
    }
}

fn runtimes(sockets: &[&Path]) -> PodMetadata {
    let config = Config {
        lists: None,
        sockets: sockets.iter().map(|path| path.to_path_buf()).collect(),
    };
    PodMetadata::start(&config).unwrap()
}

#[tokio::test]
async fn the_runtime_lists_its_containers() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("runtime.sock");
    let server = Server::start_at_path(&socket, strict_runtime);
    let mut names = runtimes(&[&folder.path().join("not there"), &socket]);
    let list = request(&mut names, ID).await.running.unwrap();
    let place = list.container(ID).unwrap();
    assert_eq!(place.container.as_deref(), Some("web"));
    let pod = place.pod.unwrap();
    assert_eq!((&*pod.namespace, &*pod.name), ("prod", "shop"));
    assert_eq!(pod.labels, [("app".to_owned(), "shop".to_owned())].into());
    assert_eq!(list.pod(UID), Some(pod));
    // The sandbox container of the pod has no name.
    assert_eq!(list.container(OTHER).unwrap().container, None);
    assert_eq!(list.container("c"), None);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_runtime_without_the_kubernetes_api_is_skipped() {
    fn docker(_: &Received) -> Reply {
        grpc_status(12, "unknown service runtime.v1.RuntimeService")
    }
    let folder = tempfile::tempdir().unwrap();
    let [docker_at, cri_at] = ["docker", "cri"].map(|name| folder.path().join(name));
    let _docker = Server::start_at_path(&docker_at, docker);
    let _cri = Server::start_at_path(&cri_at, strict_runtime);
    let mut names = runtimes(&[&docker_at, &cri_at]);
    assert_eq!(request(&mut names, ID).await.running.unwrap().count(), 1);
    let mut names = runtimes(&[&docker_at]);
    assert!(request(&mut names, ID).await.running.is_none());
    assert_eq!(names.status()[0].failures, [("unsupported", 1)].into());
}

#[tokio::test]
async fn the_runtime_is_queried_for_containers_that_kubernetes_lacks() {
    let mut client = TestClient::api_server("good").await;
    let socket = client.folder.path().join("runtime.sock");
    let runtime = Server::start_at_path(&socket, strict_runtime);
    let answer = client.request().await;
    assert!(answer.listed.is_some() && answer.running.is_none());
    assert_eq!(runtime.connections(), 0);
    let answer = request(&mut client.names, "unknown").await;
    assert!(answer.listed.is_some() && answer.running.is_some());
    // And if Kubernetes does not respond.
    client.server.enqueue_reply(Reply::Reset);
    client.server.disconnect();
    let answer = client.request().await;
    assert!(answer.running.is_some(), "{answer:?}");
}

#[tokio::test]
async fn a_missing_socket_is_no_failure() {
    let mut names = runtimes(&[Path::new("/nonexistent/runtime.sock")]);
    let answer = request(&mut names, ID).await;
    assert!(answer.listed.is_none() && answer.running.is_none());
    let status = &names.status()[0];
    assert_eq!((status.requests, status.failures.len()), (0, 0));
}

/// Arbitrary bytes and malformed messages.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let truncated = (0_usize..400, any::<u8>(), any::<bool>()).prop_map(|(at, byte, is_first)| {
        let mut bytes = if is_first { sandboxes() } else { containers() };
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(at + 100);
        bytes
    });
    proptest::prop_oneof![prop::collection::vec(any::<u8>(), 0..200), truncated]
}

proptest! {
    #[test]
    fn arbitrary_messages_do_not_panic(sandboxes in messages(), containers in messages()) {
        let _ = read(&sandboxes.into(), &containers.into());
    }
}
