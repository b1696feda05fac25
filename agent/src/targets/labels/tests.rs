use super::{
    Labeller, Subject, attribute_name,
    host::Host,
    metadata::*,
    pods::{ContainerInfo, Pod},
};
use crate::{
    process::{self, cgroup::Cgroup},
    targets::labels::attributes::Attributes,
};
use serde_json::json;
use std::{
    io::Read as _,
    process::{Command, Stdio, id},
    sync::Arc,
};

const ID: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";
const UID: &str = "8c1f3a9e-7b2d-4f53-9a01-2b7cf2a1d9e4";

fn host() -> Host {
    Host {
        name: "machine".to_owned(),
        architecture: "amd64",
        node: Some("node-1".to_owned()),
    }
}

fn in_pod() -> (ProcessMetadata, ContainerInfo) {
    let list = "service.version=1.2,deployment.environment.name=prod";
    let metadata = ProcessMetadata {
        pid: 7,
        parent: Some(1),
        comm: "python".to_owned(),
        executable: "/usr/bin/python3.12".into(),
        script: Some("manage".to_owned()),
        user: Some(33),
        cgroup: Cgroup::parse(format!("0::/kubepods/burstable/pod{UID}/crio-{ID}").as_bytes()),
        attributes: Attributes::new(None, Some(list)),
        runtime: Some(Runtime {
            name: "cpython",
            version: "3.12.1".to_owned(),
        }),
        command_line: None,
    };
    let labels = [("app.kubernetes.io/name", "shop"), ("tier", "")];
    let pod = Pod {
        uid: UID.to_owned(),
        name: "shop-7d9f".to_owned(),
        namespace: "prod".to_owned(),
        node: None,
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    let container_info = ContainerInfo {
        container: Some("web".to_owned()),
        pod: Some(Arc::new(pod)),
        ..ContainerInfo::default()
    };
    (metadata, container_info)
}

fn labels(
    labeller: &Labeller,
    metadata: &ProcessMetadata,
    container_info: Option<&ContainerInfo>,
) -> Option<String> {
    let labels = labeller.labels(&Subject {
        metadata,
        container_info,
    })?;
    let lines: Vec<String> = labels
        .into_map()
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Some(lines.join(" "))
}

#[test]
fn a_process_of_a_pod_has_its_metadata() {
    let (metadata, container_info) = in_pod();
    let mut labeller = Labeller {
        host: host(),
        ..Labeller::default()
    };
    let expected = format!(
        "container=web container_id={ID} container_runtime=cri-o deployment_environment=prod \
         host_arch=amd64 host_name=machine namespace=prod node=node-1 pod=shop-7d9f \
         process_runtime_name=cpython process_runtime_version=3.12.1 service_name=shop \
         service_version=1.2"
    );
    assert_eq!(
        labels(&labeller, &metadata, Some(&container_info)),
        Some(expected)
    );
    labeller.per_process = true;
    let labels = labeller
        .labels(&Subject {
            metadata: &metadata,
            container_info: None,
        })
        .unwrap();
    assert_eq!(labels.get("process_id"), Some("7"));
    assert_eq!(labels.get("process_executable_name"), Some("python3.12"));
    assert_eq!(labels.get("service_name"), Some("manage"));
    assert_eq!(labels.get("pod"), None);
}

#[test]
fn a_process_of_a_service_has_its_unit() {
    let metadata = |path: &str| ProcessMetadata {
        comm: "nginx".to_owned(),
        cgroup: Cgroup::parse(format!("0::{path}").as_bytes()),
        ..ProcessMetadata::default()
    };
    let labeller = Labeller::default();
    let service = metadata("/system.slice/web.service");
    let expected = "service_name=web systemd_unit=web.service";
    assert_eq!(labels(&labeller, &service, None).as_deref(), Some(expected));
    let session = metadata("/user.slice/user-0.slice/session-1.scope");
    let expected = "service_name=nginx";
    assert_eq!(labels(&labeller, &session, None).as_deref(), Some(expected));
    let named = ContainerInfo {
        container: Some("db".to_owned()),
        ..ContainerInfo::default()
    };
    let expected = "container_name=db service_name=db systemd_unit=web.service";
    assert_eq!(
        labels(&labeller, &service, Some(&named)).as_deref(),
        Some(expected)
    );
}

#[test]
fn rules_read_all_metadata() {
    let (metadata, mut container_info) = in_pod();
    container_info
        .labels
        .insert("com.docker.compose.service".to_owned(), "x".to_owned());
    let rules = json!([{"action": "labelmap", "regex": "__meta_(.*)", "replacement": "m_$1"},
        {"action": "labelkeep", "regex": "m_.*"}]);
    let labeller = Labeller {
        rules: serde_json::from_value(rules).unwrap(),
        ..Labeller::default()
    };
    let expected = format!(
        "m_container_label_com_docker_compose_service=x \
         m_container_labelpresent_com_docker_compose_service=true \
         m_kubernetes_namespace=prod m_kubernetes_pod_container_name=web \
         m_kubernetes_pod_label_app_kubernetes_io_name=shop \
         m_kubernetes_pod_labelpresent_app_kubernetes_io_name=true \
         m_kubernetes_pod_labelpresent_tier=true m_kubernetes_pod_name=shop-7d9f \
         m_kubernetes_pod_qos_class=Burstable m_kubernetes_pod_uid={UID} \
         m_process_cgroup=/kubepods/burstable/pod{UID}/crio-{ID} m_process_comm=python \
         m_process_container_id={ID} m_process_container_name=web \
         m_process_container_runtime=cri-o m_process_executable_name=python3.12 \
         m_process_executable_path=/usr/bin/python3.12 m_process_pid=7 m_process_ppid=1 \
         m_process_runtime_name=cpython m_process_runtime_version=3.12.1 \
         m_process_script=manage m_process_user=33 m_python_version=3.12.1"
    );
    assert_eq!(
        labels(&labeller, &metadata, Some(&container_info)),
        Some(expected)
    );
}

#[test]
fn rules_may_drop_a_process() {
    let (metadata, container_info) = in_pod();
    let rules = json!([{"source_labels": ["__meta_kubernetes_namespace"], "regex": "prod",
        "action": "drop"}]);
    let labeller = Labeller {
        rules: serde_json::from_value(rules).unwrap(),
        ..Labeller::default()
    };
    assert_eq!(labels(&labeller, &metadata, Some(&container_info)), None);
    assert!(labels(&labeller, &metadata, None).is_some());
}

#[test]
fn the_environment_is_only_used_if_it_is_trusted() {
    let mut child = Command::new("sh")
        .args(["-c", "echo; read line"])
        .env("OTEL_SERVICE_NAME", "claimed")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Before the `exec` of the shell the environment may be empty.
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0]).unwrap();
    let process = process::Process::open(child.id()).unwrap();
    let name = |without_environment| {
        let wanted = MetadataOptions {
            without_environment,
            ..MetadataOptions::default()
        };
        let metadata = ProcessMetadata::read(&process, wanted).unwrap();
        metadata.attributes.get("service.name").map(str::to_owned)
    };
    let names = [false, true].map(name);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(names, [Some("claimed".to_owned()), None]);
}

#[test]
fn this_process_has_labels() {
    let process = process::Process::open(id()).unwrap();
    let metadata = ProcessMetadata::read(&process, MetadataOptions::default()).unwrap();
    assert_eq!(metadata.pid, id());
    assert_eq!(metadata.command_line, None);
    assert!(!metadata.cgroup.path.is_empty());
    let wanted = MetadataOptions {
        command_line: true,
        ..MetadataOptions::default()
    };
    let line = ProcessMetadata::read(&process, wanted)
        .unwrap()
        .command_line
        .unwrap();
    let first = std::env::args().next().unwrap();
    assert!(line.starts_with(&first), "{line}");
    let labels = Labeller::default().labels(&Subject {
        metadata: &metadata,
        container_info: None,
    });
    assert!(
        labels
            .unwrap()
            .get("service_name")
            .is_some_and(|name| !name.is_empty())
    );
}

#[test]
fn a_long_label_is_truncated() {
    let metadata = ProcessMetadata {
        attributes: Attributes::new(Some(&"é".repeat(5000)), None),
        ..ProcessMetadata::default()
    };
    let labels = Labeller::default().labels(&Subject {
        metadata: &metadata,
        container_info: None,
    });
    assert_eq!(
        labels.unwrap().get("service_name").map(str::len),
        Some(super::labeller::MAX_VALUE)
    );
}

#[test]
fn opentelemetry_attributes_have_their_own_names() {
    assert_eq!(attribute_name("pod"), "k8s.pod.name");
    assert_eq!(attribute_name("service_name"), "service.name");
    assert_eq!(attribute_name("team"), "team");
}
