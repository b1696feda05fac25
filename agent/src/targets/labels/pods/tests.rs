use super::{
    ContainerInfo, HostFiles, PodList, PodLists, Pods, Resolution, UnknownContainers,
    cache::{LONGEST_REFRESH, REFRESH},
    container::kubernetes_name,
};
use crate::process::cgroup::{Cgroup, Container, ContainerRuntime};
use proptest::prelude::{any, proptest};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc, time::Instant};

const ID: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";
const OTHER: &str = "77aabbccddeeff00112233445566778899aabbccddeeff001122334455667788";
const UID: &str = "8c1f3a9e-7b2d-4f53-9a01-2b7cf2a1d9e4";

/// The list of a kubelet with two pods, the second of which is a static one.
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

/// The namespace, the pod, its UID and the container, `-` for missing ones.
fn words(container_info: Option<&ContainerInfo>) -> String {
    let pod = container_info.and_then(|container_info| container_info.pod.as_deref());
    let words = [
        pod.map(|pod| pod.namespace.as_str()),
        pod.map(|pod| pod.name.as_str()),
        pod.map(|pod| pod.uid.as_str()),
        container_info.and_then(|container_info| container_info.container.as_deref()),
    ];
    let words = words.map(|word| word.filter(|word| !word.is_empty()).unwrap_or("-"));
    words.join(" ")
}

#[test]
fn a_list_has_containers_and_pods() {
    let list = parse(&document());
    let container_info = list.container(ID).unwrap();
    assert_eq!(
        words(Some(&container_info)),
        format!("prod shop-7d9f {UID} web")
    );
    let pod = container_info.pod.unwrap();
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
fn an_invalid_list_is_rejected() {
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

/// The metadata of a container in the files below `root`.
fn found(root: &Path, id: &str, runtime: Option<ContainerRuntime>) -> String {
    let id = id.to_owned();
    let container_info = HostFiles::new(root).container(&Container { id, runtime });
    words(container_info.as_ref())
}

#[test]
fn log_files_have_names_of_containers_and_pods() {
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
    // Two containers are ambiguous.
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
fn names_are_read_from_files_of_containerd() {
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
    assert_eq!(
        found(root, ID, Some(ContainerRuntime::Containerd)),
        expected
    );
    assert_eq!(found(root, ID, None), expected);
    assert_eq!(found(root, ID, Some(ContainerRuntime::Docker)), "- - - -");

    let folder = "run/containerd/io.containerd.runtime.v2.task/default";
    let file = format!("{folder}/{OTHER}/config.json");
    write(
        root,
        &file,
        &bundle(json!({"nerdctl/name": "db"})).to_string(),
    );
    assert_eq!(
        found(root, OTHER, Some(ContainerRuntime::Containerd)),
        "- - - db"
    );
    write(root, &file, "{");
    assert_eq!(
        found(root, OTHER, Some(ContainerRuntime::Containerd)),
        "- - - -"
    );
}

#[test]
fn names_are_read_from_files_of_docker() {
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
        runtime: Some(ContainerRuntime::Docker),
    };
    let container_info = HostFiles::new(root).container(&container).unwrap();
    assert_eq!(words(Some(&container_info)), "- - - shop-db-1");
    assert_eq!(container_info.labels["com.docker.compose.service"], "db");
    write(
        root,
        &file,
        &written(&format!("/k8s_web_shop-7d9f_prod_{UID}_0")),
    );
    let expected = format!("prod shop-7d9f {UID} web");
    assert_eq!(found(root, ID, Some(ContainerRuntime::Docker)), expected);
}

#[test]
fn names_are_read_from_lists_of_podman_and_crio() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let folder = "var/lib/containers/storage/overlay-containers";
    let list = json!([{"id": OTHER, "names": null}, {"id": ID, "names": ["shop-db"], "image": ""}]);
    write(
        root,
        &format!("{folder}/containers.json"),
        &list.to_string(),
    );
    assert_eq!(
        found(root, ID, Some(ContainerRuntime::Podman)),
        "- - - shop-db"
    );
    assert_eq!(
        found(root, OTHER, Some(ContainerRuntime::Podman)),
        "- - - -"
    );
    let third = OTHER.replace('7', "0");
    let name = format!("k8s_POD_shop-7d9f_prod_{UID}_0");
    let list = json!([{"id": third, "names": [name]}]);
    write(
        root,
        &format!("{folder}/volatile-containers.json"),
        &list.to_string(),
    );
    let expected = format!("prod shop-7d9f {UID} -");
    assert_eq!(found(root, &third, Some(ContainerRuntime::CriO)), expected);
}

/// A container in a container of a pod.
fn nested() -> Cgroup {
    Cgroup::parse(format!("0::/kubepods/pod{UID}/{ID}/docker/{OTHER}").as_bytes())
}

/// The resolution of a container in a container of a pod.
fn found_nested(pods: &mut Pods) -> (String, bool) {
    let Resolution {
        container_info,
        is_complete,
    } = pods.find(&nested());
    (words(container_info.as_ref()), is_complete)
}

/// A response of Kubernetes only.
fn listed(document: &Value) -> PodLists {
    PodLists {
        listed: Some(parse(document)),
        running: None,
    }
}

/// A response of the runtime only, with this container of the pod.
fn running(id: &str, name: Option<&str>) -> PodLists {
    let pod = Arc::new(super::Pod {
        uid: UID.to_owned(),
        name: "shop-7d9f".to_owned(),
        namespace: "prod".to_owned(),
        ..super::Pod::default()
    });
    let mut list = PodList::default();
    list.add_pod(&pod);
    list.add_container(id, name, &pod);
    PodLists {
        listed: None,
        running: Some(list),
    }
}

fn nothing_on_the_host(has_lists: bool) -> Pods {
    Pods::new(HostFiles::new("/nonexistent"), has_lists)
}

#[test]
fn unknown_containers_are_requested() {
    let mut pods = nothing_on_the_host(true);
    let now = Instant::now();
    assert_eq!(pods.next_request(now), None);
    assert_eq!(found_nested(&mut pods), ("- - - -".to_owned(), false));
    assert_eq!(
        pods.next_request(now),
        Some(UnknownContainers::from([ID.to_owned()]))
    );
    // Not repeated immediately, with or without a response.
    assert_eq!(pods.next_request(now), None);
    pods.update(PodLists::default(), now);
    assert_eq!(pods.next_request(now), None);
    assert!(pods.next_request(now + REFRESH).is_some());

    // Only the outer container is in the list of Kubernetes.
    pods.update(listed(&document()), now);
    let full = format!("prod shop-7d9f {UID} web");
    assert_eq!(found_nested(&mut pods), (full, true));
    assert_eq!(pods.next_request(now + LONGEST_REFRESH), None);
    let in_no_container = Cgroup::parse(format!("0::/kubepods/pod{UID}").as_bytes());
    let found = pods.find(&in_no_container);
    assert_eq!(
        words(found.container_info.as_ref()),
        format!("prod shop-7d9f {UID} -")
    );
    assert!(found.is_complete);

    // Without a response the old list remains.
    pods.update(PodLists::default(), now);
    assert!(pods.find(&nested()).is_complete);
}

#[test]
fn requests_for_unlisted_containers_back_off() {
    let mut pods = nothing_on_the_host(true);
    let mut now = Instant::now();
    let mut waits = Vec::new();
    for _ in 0..9 {
        assert!(!found_nested(&mut pods).1);
        let before = now;
        while pods.next_request(now).is_none() {
            now += REFRESH;
        }
        waits.push((now - before).as_secs());
        pods.update(listed(&json!({"items": []})), now);
    }
    assert_eq!(waits, [0, 5, 10, 20, 40, 80, 160, 300, 300]);
    // The request for another container is not delayed.
    now += REFRESH;
    let another = format!("0::/kubepods/pod{UID}/{}", OTHER.replace('7', "0"));
    pods.find(&Cgroup::parse(another.as_bytes()));
    assert!(
        pods.next_request(now)
            .is_some_and(|request| request.len() == 1)
    );
}

#[test]
fn a_process_does_not_get_the_labels_of_a_pod_that_it_names() {
    let mut pods = nothing_on_the_host(true);
    pods.update(listed(&document()), Instant::now());
    let victim = format!("kubepods/pod{UID}/{ID}");
    let user = "user.slice/user-1000.slice/user@1000.service";
    for around in [
        format!("docker/{OTHER}"),
        format!("kubepods/pod3959d7abfbd0221e5043fccbcb8040e0/{OTHER}"),
        format!("{user}/app.slice"),
        format!("{user}/app.slice/libpod-{OTHER}.scope"),
    ] {
        let cgroup = Cgroup::parse(format!("0::/{around}/{victim}").as_bytes());
        let found = pods.find(&cgroup).container_info;
        assert_eq!(words(found.as_ref()), "- - - -", "{around}");
        assert_ne!(cgroup.pod.map(|pod| pod.uid).as_deref(), Some(UID));
    }
}

#[test]
fn without_a_pod_or_a_list_there_is_no_request() {
    let now = Instant::now();
    let mut pods = nothing_on_the_host(true);
    pods.find(&Cgroup::parse(format!("0::/docker/{ID}").as_bytes()));
    assert_eq!(pods.next_request(now), None);
    let mut pods = nothing_on_the_host(false);
    pods.find(&nested());
    assert_eq!(pods.next_request(now), None);
}

#[test]
fn the_runtime_has_containers_that_kubernetes_lacks() {
    let mut pods = nothing_on_the_host(true);
    let now = Instant::now();
    // The pod is listed, its running container not yet.
    let mut document = document();
    document["items"][0]["status"] = json!({"phase": "Pending"});
    pods.update(listed(&document), now);
    let pod_alone = format!("prod shop-7d9f {UID} -");
    assert_eq!(found_nested(&mut pods), (pod_alone.clone(), false));
    pods.update(running(ID, Some("web")), now);
    let full = format!("prod shop-7d9f {UID} web");
    assert_eq!(found_nested(&mut pods), (full.clone(), true));
    // The labels remain those of Kubernetes.
    let pod = pods.find(&nested()).container_info.unwrap().pod.unwrap();
    assert_eq!(pod.labels["app"], "shop");

    // Without Kubernetes, and for the sandbox container, which only holds the namespaces of its
    // pod.
    let mut pods = nothing_on_the_host(true);
    pods.update(running(ID, Some("web")), now);
    assert_eq!(found_nested(&mut pods), (full, true));
    pods.update(running(ID, None), now);
    assert_eq!(found_nested(&mut pods), (pod_alone, true));
}

#[test]
fn lists_have_priority_over_host_files() {
    let root = tempfile::tempdir().unwrap();
    let name = format!("var/log/pods/prod_shop-7d9f_{UID}/old/0.log");
    write(root.path(), &name, "");
    let mut pods = Pods::new(HostFiles::new(root.path()), true);
    let by_files = format!("prod shop-7d9f {UID} old");
    // A list may still have more metadata.
    assert_eq!(found_nested(&mut pods), (by_files.clone(), false));
    pods.update(listed(&document()), Instant::now());
    let by_list = format!("prod shop-7d9f {UID} web");
    assert_eq!(found_nested(&mut pods), (by_list, true));
    let mut pods = Pods::new(HostFiles::new(root.path()), false);
    assert_eq!(found_nested(&mut pods), (by_files, true));
}

#[test]
fn a_list_over_the_limit_is_read_to_its_end() {
    let pods: Vec<_> = (0..20_000)
        .map(|number| json!({"metadata": {"name": "a", "namespace": "b", "uid": number.to_string()}}))
        .collect();
    let mut list = PodList::default();
    let document = json!({"items": pods, "metadata": {"continue": "more"}}).to_string();
    let next = list.read_page(document.as_bytes()).unwrap();
    assert_eq!(next.as_deref(), Some("more"));
    assert_eq!(list.count(), 16 << 10);
    assert!(PodList::parse(b"{\"items\": null}").is_ok());
}

#[test]
fn pages_are_merged() {
    let mut first = document();
    let mut items = first["items"].as_array().unwrap().clone();
    let rest = items.split_off(1);
    first["items"] = items.into();
    first["metadata"] = json!({"continue": "abc"});
    let mut list = PodList::default();
    let read = |list: &mut PodList, page: &Value| list.read_page(page.to_string().as_bytes());
    assert_eq!(read(&mut list, &first).unwrap().as_deref(), Some("abc"));
    let second = json!({"metadata": {"continue": ""}, "items": rest});
    assert_eq!(read(&mut list, &second).unwrap(), None);
    assert_eq!(list.count(), 2);
    assert!(list.has(UID) && list.has(ID) && !list.has("x"));
}

#[test]
fn host_files_are_read_once() {
    let root = tempfile::tempdir().unwrap();
    let mut pods = Pods::new(HostFiles::new(root.path()), false);
    let name = format!("var/log/pods/prod_shop-7d9f_{UID}/web/0.log");
    write(root.path(), &name, "");
    let expected = (format!("prod shop-7d9f {UID} web"), true);
    assert_eq!(found_nested(&mut pods), expected);
    fs::remove_dir_all(root.path().join("var")).unwrap();
    assert_eq!(found_nested(&mut pods), expected);
}

#[test]
fn container_names_of_kubernetes_are_parsed() {
    let container_info = kubernetes_name(&format!("k8s_web_shop-7d9f_prod_{UID}_0"));
    assert_eq!(
        words(container_info.as_ref()),
        format!("prod shop-7d9f {UID} web")
    );
    for name in ["web", "k8s_", "k8s_a_b_c", "k8s_a__c_d_0"] {
        assert_eq!(kubernetes_name(name), None, "{name}");
    }
}

proptest! {
    #[test]
    fn arbitrary_documents_do_not_panic(document in any::<Vec<u8>>()) {
        let _ = PodList::parse(&document);
    }

    #[test]
    fn truncated_documents_do_not_panic(at in 0_usize..1200, byte in any::<u8>()) {
        let mut text = document().to_string().into_bytes();
        text.truncate(at);
        let _ = PodList::parse(&text);
        let mut text = document().to_string().into_bytes();
        if let Some(container_info) = text.get_mut(at) {
            *container_info = byte;
        }
        let _ = PodList::parse(&text);
    }

    #[test]
    fn arbitrary_names_do_not_panic(name in "(k8s_)?[a-z_]{0,20}") {
        let _ = kubernetes_name(&name);
    }
}
