//! Sources of pod metadata: a real API server, with the account and the role of
//! `deploy/kubernetes`, and a real container runtime.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use agent::testing::{
    http_client::{Authentication, HttpConfig, SecretSource, TlsConfig},
    targets::{
        kubernetes::{By, Config, Lists, PodMetadata},
        labels::pods::{PodLists, UnknownContainers},
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::child;
use xtask::{cluster::Cluster, debian};

const ID: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";
const OTHER: &str = "77aabbccddeeff00112233445566778899aabbccddeeff001122334455667788";

/// A pod that a kubelet runs.
fn pod(name: &str, node: &str, id: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "prod", "labels": {"app.kubernetes.io/name": name}
        },
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "shop"}]},
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "web", "containerID": format!("containerd://{id}"), "image": "shop",
            "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}},
            "lastState": {}
        }]}
    })
}

/// A client of the API server for the pods of a node, with the token in this file.
fn client(cluster: &Cluster, node: &str, token: &Path) -> PodMetadata {
    let mut http = HttpConfig::new(format!("https://127.0.0.1:{}", cluster.port()));
    http.tls = TlsConfig {
        ca_file: Some(cluster.ca_file()),
        client: None,
    };
    http.authentication = Authentication::Bearer(SecretSource::File(token.to_owned()));
    let node = node.to_owned();
    let by = By::ApiServer { node };
    let config = Config {
        lists: Some(Lists { by, http }),
        sockets: Vec::new(),
    };
    PodMetadata::start(&config).unwrap()
}

async fn request(names: &mut PodMetadata) -> PodLists {
    names.request(UnknownContainers::from([ID.to_owned()]));
    names.next().await
}

/// Repeats the request until `wanted` returns a result: after a failure a source is not used for a
/// while.
async fn request_until<T>(
    names: &mut PodMetadata,
    wanted: impl Fn(PodLists, &PodMetadata) -> Option<T>,
) -> T {
    for _ in 0..1_000 {
        let answer = request(names).await;
        if let Some(found) = wanted(answer, names) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("timeout: {:?}", names.status());
}

#[tokio::test]
async fn the_account_of_the_manifests_may_only_list_pods() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(directory.path()).unwrap();
    let kubectl = |line: &str| {
        let arguments: Vec<_> = line.split(' ').collect();
        cluster.kubectl(&arguments, "").unwrap()
    };
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes");
    // Fields newer than this server are validated with the other manifests, for newer versions.
    kubectl(&format!(
        "apply --validate=false -k {}",
        manifests.display()
    ));
    kubectl("create namespace prod");
    for (name, node, id) in [("shop", "node-1", ID), ("other", "node-2", OTHER)] {
        let document = pod(name, node, id).to_string();
        cluster.run_pod("prod", name, &document).unwrap();
    }

    // No token, and an invalid one.
    let token = directory.path().join("token");
    let mut names = client(&cluster, "node-1", &token);
    assert!(request(&mut names).await.listed.is_none());
    fs::write(&token, "made-up").unwrap();
    request_until(&mut names, |answer, names| {
        assert!(answer.listed.is_none());
        let failures = &names.status()[0].failures;
        failures.get("unauthorized").copied()
    })
    .await;
    // A replaced token is used at once.
    fs::write(&token, cluster.token("agent", "agent").unwrap()).unwrap();
    let list = request_until(&mut names, |answer, _| answer.listed).await;
    let place = list.container(ID).unwrap();
    assert_eq!(place.container.as_deref(), Some("web"));
    let pod = place.pod.unwrap();
    assert_eq!((&*pod.namespace, &*pod.name), ("prod", "shop"));
    assert_eq!(pod.node.as_deref(), Some("node-1"));
    assert_eq!(pod.labels["app.kubernetes.io/name"], "shop");
    assert_eq!(list.pod(&pod.uid), Some(pod));
    // Only pods of its own node.
    assert_eq!((list.count(), list.container(OTHER)), (1, None));
    let status = names.status();
    assert_eq!((status[0].source, status[0].pods), ("api_server", 1));
    assert!(status[0].failures.contains_key("credentials"), "{status:?}");

    // An account that is not in the manifests.
    kubectl("create serviceaccount somebody -n agent");
    fs::write(&token, cluster.token("agent", "somebody").unwrap()).unwrap();
    let mut names = client(&cluster, "node-1", &token);
    assert!(request(&mut names).await.listed.is_none());
    assert_eq!(names.status()[0].failures, [("forbidden", 1)].into());

    let account = "--as=system:serviceaccount:agent:agent";
    let allowed = kubectl(&format!("auth can-i --list --no-headers {account}"));
    let on_pods: Vec<_> = allowed
        .lines()
        .filter(|line| !line.contains("selfsubject") && line.contains("[] "))
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|row| !row[0].starts_with('['))
        .collect();
    assert_eq!(on_pods, [["pods", "[]", "[]", "[list]"]], "{allowed}");
}

/// A container runtime with its files in a directory.
struct Containerd(Child);

impl Containerd {
    fn start(directory: &Path) -> Self {
        let program = debian::program(debian::BOOKWORM, "containerd", "containerd").unwrap();
        let folder = |name: &str| directory.join(name).display().to_string();
        let (root, state, socket) = (folder("root"), folder("state"), folder("containerd.sock"));
        let file = directory.join("config.toml");
        let configuration = format!(
            "version = 2\nroot = '{root}'\nstate = '{state}'\n[grpc]\naddress = '{socket}'\n\
             [plugins.'io.containerd.grpc.v1.cri']\nstream_server_port = '0'\n\
             [plugins.'io.containerd.internal.v1.opt']\npath = '{root}/opt'\n"
        );
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .arg("--config")
            .arg(file)
            .stdin(Stdio::null())
            .stderr(File::create(directory.join("log")).unwrap());
        Self(child::start(&mut command))
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn containerd_returns_its_list() {
    let directory = TempDir::new().unwrap();
    let _containerd = Containerd::start(directory.path());
    let config = Config {
        lists: None,
        sockets: vec![
            directory.path().join("not there"),
            directory.path().join("containerd.sock"),
        ],
    };
    let mut names = PodMetadata::start(&config).unwrap();
    let list = request_until(&mut names, |answer, _| answer.running).await;
    // An empty list: it runs no containers.
    assert_eq!(list.count(), 0);
    let status = names.status();
    assert_eq!(status[0].source, "runtime");
    let failures: u64 = status[0].failures.values().sum();
    assert!(status[0].requests > failures, "{status:?}");
}
