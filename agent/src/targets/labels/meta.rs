//! Hidden labels: those that only relabeling rules see.
//!
//! Their names are those that Prometheus and other profilers use. One that has no value is not
//! there. Labels of pods and containers keep their names, with `_` for what no label's name may
//! contain.

use std::collections::BTreeMap;

use super::{set::LabelSet, subject::Subject};

/// Adds the hidden labels.
pub(super) fn add(set: &mut LabelSet, subject: &Subject) {
    let Subject {
        metadata,
        container_info,
    } = *subject;
    let cgroup = &metadata.cgroup;
    let mut own = |name: &str, value: Option<String>| {
        set.add(&format!("__meta_process_{name}"), value);
    };
    own("pid", Some(metadata.pid.to_string()));
    own("ppid", metadata.parent.map(|parent| parent.to_string()));
    own("comm", Some(metadata.comm.clone()));
    own("executable_name", Some(metadata.executable_name()));
    own(
        "executable_path",
        Some(metadata.executable.display().to_string()),
    );
    own("script", metadata.script.clone());
    own("cmdline", metadata.command_line.clone());
    own("user", metadata.user.map(|user| user.to_string()));
    own("cgroup", Some(cgroup.path.clone()));
    own("unit", cgroup.unit.clone());
    own("unit_user", cgroup.unit_user.map(|user| user.to_string()));
    own("slice", cgroup.slice.clone());
    let container = cgroup.container();
    own("container_id", container.map(|it| it.id.clone()));
    let runtime = container.and_then(|it| it.runtime);
    own(
        "container_runtime",
        runtime.map(|it| it.as_str().to_owned()),
    );
    own(
        "container_name",
        container_info.and_then(|container_info| container_info.container.clone()),
    );
    if let Some(runtime) = &metadata.runtime {
        own("runtime_name", Some(runtime.name.to_owned()));
        own("runtime_version", Some(runtime.version.clone()));
        if runtime.name == "cpython" {
            set.add("__meta_python_version", Some(runtime.version.clone()));
        }
    }
    if let Some(container_info) = container_info {
        add_labels(set, "__meta_container", &container_info.labels);
    }
    let mut kubernetes = |name: &str, value: Option<String>| {
        set.add(&format!("__meta_kubernetes_{name}"), value);
    };
    let pod = container_info.and_then(|container_info| container_info.pod.as_deref());
    let claimed = cgroup.pod.as_ref();
    kubernetes("namespace", pod.map(|pod| pod.namespace.clone()));
    kubernetes("pod_name", pod.map(|pod| pod.name.clone()));
    let uid = pod.map(|pod| pod.uid.clone()).filter(|uid| !uid.is_empty());
    kubernetes("pod_uid", uid.or_else(|| claimed.map(|it| it.uid.clone())));
    let qos_class = claimed.and_then(|pod| pod.qos_class);
    kubernetes("pod_qos_class", qos_class.map(|it| it.as_str().to_owned()));
    if let Some(pod) = pod {
        kubernetes(
            "pod_container_name",
            container_info.and_then(|container_info| container_info.container.clone()),
        );
        kubernetes("node_name", pod.node.clone());
        add_labels(set, "__meta_kubernetes_pod", &pod.labels);
    }
}

/// Adds labels, and for each that it is there, also where it is empty.
fn add_labels(set: &mut LabelSet, prefix: &str, labels: &BTreeMap<String, String>) {
    for (name, value) in labels {
        let name: String = name
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '_'
                }
            })
            .collect();
        set.add(&format!("{prefix}_label_{name}"), Some(value.clone()));
        set.add(
            &format!("{prefix}_labelpresent_{name}"),
            Some("true".to_owned()),
        );
    }
}
