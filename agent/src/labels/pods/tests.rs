use super::{Fetch, FetchError, HostFiles, Place, PodList, Pods, kubernetes_name, read_token};
use crate::process::cgroup::{Cgroup, Container, Runtime};
use proptest::prelude::{any, proptest};
use serde_json::{Value, json};
use std::{
    error::Error,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

const ID: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";
const OTHER: &str = "77aabbccddeeff00112233445566778899aabbccddeeff001122334455667788";
const UID: &str = "8c1f3a9e-7b2d-4f53-9a01-2b7cf2a1d9e4";

/// What a kubelet says of two pods, the second of which is a static one.
fn document() -> Value {
    json!({
        "kind": "PodList", "apiVersion": "v1", "metadata": {},
        "items": [
            {
                "metadata": {"name": "shop-7d9f", "namespace": "prod", "uid": UID,
                    "labels": {"app": "shop", "odd": null}},
                "spec": {"nodeName": "node-1", "containers": [{"name": "web"}]},
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        {"name": "web", "containerID": format!("containerd://{ID}"), "ready": true},
                        {"name": "waiting"}
                    ],
                    "initContainerStatuses": [{"name": "init", "containerID": "docker://abc"}],
                    "ephemeralContainerStatuses": null
                }
            },
            {
                "metadata": {"name": "etcd-node-1", "namespace": "kube-system", "uid": "made-up",
                    "annotations": {"kubernetes.io/config.hash": "3959d7abfbd0221e5043fccbcb8040e9"}}
            },
            {"metadata": {"name": "nameless"}}
        ]
    })
}

fn parse(document: &Value) -> PodList {
    PodList::parse(document.to_string().as_bytes()).unwrap()
}

/// The namespace, the pod, its UID and the container, `-` for what is not known.
fn words(place: Option<&Place>) -> String {
    let pod = place.and_then(|place| place.pod.as_deref());
    let words = [
        pod.map(|pod| pod.namespace.as_str()),
        pod.map(|pod| pod.name.as_str()),
        pod.map(|pod| pod.uid.as_str()),
        place.and_then(|place| place.container.as_deref()),
    ];
    let words = words.map(|word| word.filter(|word| !word.is_empty()).unwrap_or("-"));
    words.join(" ")
}

#[test]
fn a_list_names_containers_and_pods() {
    let list = parse(&document());
    let place = list.container(ID).unwrap();
    assert_eq!(words(Some(&place)), format!("prod shop-7d9f {UID} web"));
    let pod = place.pod.unwrap();
    assert_eq!(pod.node.as_deref(), Some("node-1"));
    assert_eq!(pod.labels, [("app".to_owned(), "shop".to_owned())].into());
    assert_eq!(
        list.container("abc").unwrap().container.as_deref(),
        Some("init")
    );
    assert_eq!(list.container(""), None);
    assert_eq!(list.pod(UID), Some(pod));
    let etcd = list.pod("3959d7abfbd0221e5043fccbcb8040e9").unwrap();
    assert_eq!(etcd.name, "etcd-node-1");
    assert_eq!(list.pod(""), None);
}

#[test]
fn what_is_no_list_is_refused() {
    for document in [
        "",
        "[]",
        "{\"items\": 1}",
        "{\"items\": [{\"metadata\": {\"name\": 1}}]}",
    ] {
        assert!(PodList::parse(document.as_bytes()).is_err(), "{document}");
    }
    for document in ["{}", "{\"items\": null}", "{\"items\": [{}]}"] {
        assert!(PodList::parse(document.as_bytes()).is_ok(), "{document}");
    }
    let deep = "[".repeat(100_000);
    assert!(PodList::parse(format!("{{\"items\": {deep}").as_bytes()).is_err());
}

fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// What the files below `root` say of a container.
fn found(root: &Path, id: &str, runtime: Option<Runtime>) -> String {
    let id = id.to_owned();
    let place = HostFiles::new(root).container(&Container { id, runtime });
    words(place.as_ref())
}

#[test]
fn log_files_name_containers_and_pods() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    write(
        root,
        &format!("var/log/pods/prod_shop-7d9f_{UID}/web/0.log"),
        "",
    );
    write(root, "var/log/pods/odd/x", "");
    let links = root.join("var/log/containers");
    fs::create_dir_all(&links).unwrap();
    let target = format!("/var/log/pods/prod_shop-7d9f_{UID}/web/0.log");
    symlink(target, links.join(format!("shop-7d9f_prod_web-{ID}.log"))).unwrap();
    symlink("/elsewhere", links.join(format!("a_b_c-d-{OTHER}.log"))).unwrap();
    let full = format!("prod shop-7d9f {UID} web");
    assert_eq!(found(root, ID, None), full);
    assert_eq!(found(root, OTHER, None), "b a - c-d");
    for id in [&ID[1..], "", "5aa", "../5aa"] {
        assert_eq!(found(root, id, None), "- - - -", "{id}");
    }
    let host = HostFiles::new(root);
    assert_eq!(words(host.pod(UID).as_ref()), full);
    // Which of two containers is meant is not known.
    write(
        root,
        &format!("var/log/pods/prod_shop-7d9f_{UID}/init/0.log"),
        "",
    );
    assert_eq!(
        words(host.pod(UID).as_ref()),
        format!("prod shop-7d9f {UID} -")
    );
    assert_eq!(host.pod("odd"), None);
}

#[test]
fn containerd_names_its_containers() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let bundle = |annotations: Value| json!({"ociVersion": "1.1.0", "annotations": annotations});
    let folder = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    let annotations = json!({
        "io.kubernetes.cri.container-name": "web", "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-name": "shop-7d9f", "io.kubernetes.cri.sandbox-namespace": "prod",
        "io.kubernetes.cri.sandbox-uid": UID,
    });
    let file = format!("{folder}/{ID}/config.json");
    write(root, &file, &bundle(annotations).to_string());
    let expected = format!("prod shop-7d9f {UID} web");
    assert_eq!(found(root, ID, Some(Runtime::Containerd)), expected);
    assert_eq!(found(root, ID, None), expected);
    assert_eq!(found(root, ID, Some(Runtime::Docker)), "- - - -");

    let folder = "run/containerd/io.containerd.runtime.v2.task/default";
    let file = format!("{folder}/{OTHER}/config.json");
    write(
        root,
        &file,
        &bundle(json!({"nerdctl/name": "db"})).to_string(),
    );
    assert_eq!(found(root, OTHER, Some(Runtime::Containerd)), "- - - db");
    write(root, &file, "{");
    assert_eq!(found(root, OTHER, Some(Runtime::Containerd)), "- - - -");
}

#[test]
fn docker_names_its_containers() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let file = format!("var/lib/docker/containers/{ID}/config.v2.json");
    let written = |name: &str| {
        let labels = json!({"com.docker.compose.service": "db"});
        json!({"ID": ID, "Name": name, "Config": {"Labels": labels}}).to_string()
    };
    write(root, &file, &written("/shop-db-1"));
    let container = Container {
        id: ID.to_owned(),
        runtime: Some(Runtime::Docker),
    };
    let place = HostFiles::new(root).container(&container).unwrap();
    assert_eq!(words(Some(&place)), "- - - shop-db-1");
    assert_eq!(place.labels["com.docker.compose.service"], "db");
    write(
        root,
        &file,
        &written(&format!("/k8s_web_shop-7d9f_prod_{UID}_0")),
    );
    let expected = format!("prod shop-7d9f {UID} web");
    assert_eq!(found(root, ID, Some(Runtime::Docker)), expected);
}

#[test]
fn podman_and_crio_have_a_list() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let folder = "var/lib/containers/storage/overlay-containers";
    let list = json!([{"id": OTHER, "names": null}, {"id": ID, "names": ["shop-db"], "image": ""}]);
    write(
        root,
        &format!("{folder}/containers.json"),
        &list.to_string(),
    );
    assert_eq!(found(root, ID, Some(Runtime::Podman)), "- - - shop-db");
    assert_eq!(found(root, OTHER, Some(Runtime::Podman)), "- - - -");
    let third = OTHER.replace('7', "0");
    let name = format!("k8s_POD_shop-7d9f_prod_{UID}_0");
    let list = json!([{"id": third, "names": [name]}]);
    write(
        root,
        &format!("{folder}/volatile-containers.json"),
        &list.to_string(),
    );
    let expected = format!("prod shop-7d9f {UID} -");
    assert_eq!(found(root, &third, Some(Runtime::CriO)), expected);
}

/// A container in a container of a pod.
fn nested() -> Cgroup {
    Cgroup::parse(format!("0::/kubepods/pod{UID}/{ID}/docker/{OTHER}").as_bytes())
}

/// Serves one document over HTTP to whoever has the token, so many times.
fn serve(listener: &TcpListener, body: &str, times: usize) {
    for _ in 0..times {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 4096];
        let bytes = stream.read(&mut request).unwrap();
        let request = String::from_utf8_lossy(&request[..bytes]);
        let is_known = request.starts_with("GET /pods ")
            && request.contains("Authorization: Bearer secret\r\n");
        let status = if is_known {
            "200 OK"
        } else {
            "401 Unauthorized"
        };
        let answer = format!("HTTP/1.0 {status}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

/// A kubelet without encryption.
struct Kubelet {
    address: SocketAddr,
    token: PathBuf,
}

impl Fetch for Kubelet {
    async fn fetch(&self) -> Result<Vec<u8>, FetchError> {
        let failed = |source: Box<dyn Error + Send + Sync>| FetchError {
            from: self.address.to_string(),
            source,
        };
        let token = read_token(&self.token).map_err(|error| failed(error.into()))?;
        let mut stream = TcpStream::connect(self.address).map_err(|error| failed(error.into()))?;
        let request = format!("GET /pods HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        if head.starts_with("HTTP/1.0 200") {
            Ok(body.as_bytes().to_vec())
        } else {
            Err(failed(head.into()))
        }
    }
}

#[tokio::test]
async fn a_kubelet_is_asked_when_something_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubelet = Kubelet {
        address: listener.local_addr().unwrap(),
        token: root.path().join("token"),
    };
    let server = thread::spawn(move || serve(&listener, &document().to_string(), 2));
    let mut pods = Pods::new(HostFiles::new(root.path()));
    assert!(!pods.wants_list(Instant::now()));
    assert_eq!(pods.find(&nested()), None);
    assert!(pods.wants_list(Instant::now()));

    // Neither without a token nor with a wrong one.
    pods.refresh(&kubelet).await.unwrap_err();
    fs::write(&kubelet.token, "wrong\n").unwrap();
    pods.refresh(&kubelet).await.unwrap_err();
    assert!(!pods.wants_list(Instant::now()));
    assert!(pods.wants_list(Instant::now() + super::REFRESH));
    fs::write(&kubelet.token, "secret\n").unwrap();
    pods.refresh(&kubelet).await.unwrap();
    server.join().unwrap();

    // The outer container is the one that Kubernetes knows.
    let place = pods.find(&nested());
    assert_eq!(words(place.as_ref()), format!("prod shop-7d9f {UID} web"));
    assert!(!pods.wants_list(Instant::now() + Duration::from_secs(3600)));
    let in_no_container = Cgroup::parse(format!("0::/kubepods/pod{UID}").as_bytes());
    let place = pods.find(&in_no_container);
    assert_eq!(words(place.as_ref()), format!("prod shop-7d9f {UID} -"));

    // A list that cannot be had leaves the old one.
    pods.refresh(&kubelet).await.unwrap_err();
    assert!(pods.find(&nested()).is_some());
}

#[test]
fn host_files_are_asked_once() {
    let root = tempfile::tempdir().unwrap();
    let mut pods = Pods::new(HostFiles::new(root.path()));
    let name = format!("var/log/pods/prod_shop-7d9f_{UID}/web/0.log");
    write(root.path(), &name, "");
    let expected = format!("prod shop-7d9f {UID} web");
    assert_eq!(words(pods.find(&nested()).as_ref()), expected);
    fs::remove_dir_all(root.path().join("var")).unwrap();
    assert_eq!(words(pods.find(&nested()).as_ref()), expected);
}

#[test]
fn a_token_is_one_word() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for (content, token) in [
        ("abc.d-e_f\n", Some("abc.d-e_f")),
        ("", None),
        ("a\nb", None),
    ] {
        fs::write(file.path(), content).unwrap();
        let read = read_token(file.path()).ok();
        assert_eq!(read.as_deref(), token);
    }
}

#[test]
fn names_of_kubernetes_are_taken_apart() {
    let place = kubernetes_name(&format!("k8s_web_shop-7d9f_prod_{UID}_0"));
    assert_eq!(words(place.as_ref()), format!("prod shop-7d9f {UID} web"));
    for name in ["web", "k8s_", "k8s_a_b_c", "k8s_a__c_d_0"] {
        assert_eq!(kubernetes_name(name), None, "{name}");
    }
}

proptest! {
    #[test]
    fn no_document_makes_it_panic(document in any::<Vec<u8>>()) {
        let _ = PodList::parse(&document);
    }

    #[test]
    fn no_cut_document_makes_it_panic(at in 0_usize..1200, byte in any::<u8>()) {
        let mut text = document().to_string().into_bytes();
        text.truncate(at);
        let _ = PodList::parse(&text);
        let mut text = document().to_string().into_bytes();
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
        let _ = PodList::parse(&text);
    }

    #[test]
    fn no_name_makes_it_panic(name in "(k8s_)?[a-z_]{0,20}") {
        let _ = kubernetes_name(&name);
    }
}
