//! Names of labels: which are valid, and what OpenTelemetry calls them.

/// Prefix of labels that only relabeling rules see.
pub(super) const HIDDEN: &str = "__";

/// Labels with the names of their resource attributes in OpenTelemetry.
const NAMES: [(&str, &str); 20] = [
    ("container", "k8s.container.name"),
    ("container_id", "container.id"),
    ("container_name", "container.name"),
    ("container_runtime", "container.runtime"),
    ("deployment_environment", "deployment.environment.name"),
    ("host_arch", "host.arch"),
    ("host_name", "host.name"),
    ("namespace", "k8s.namespace.name"),
    ("node", "k8s.node.name"),
    ("pod", "k8s.pod.name"),
    ("pod_uid", "k8s.pod.uid"),
    ("process_executable_name", "process.executable.name"),
    ("process_id", "process.pid"),
    ("process_runtime_name", "process.runtime.name"),
    ("process_runtime_version", "process.runtime.version"),
    ("service_name", "service.name"),
    ("service_namespace", "service.namespace"),
    ("service_version", "service.version"),
    ("service_instance_id", "service.instance.id"),
    ("systemd_unit", "systemd.unit"),
];

/// The resource attribute of OpenTelemetry for a label; the label's own name if there is none.
#[must_use]
pub fn attribute_name(label: &str) -> &str {
    let known = NAMES.iter().find(|(name, _)| *name == label);
    known.map_or(label, |(_, attribute)| attribute)
}

/// Whether all destinations accept this name for a label that is not hidden.
#[must_use]
pub fn is_name(name: &str) -> bool {
    is_label_name(name) && !name.starts_with(HIDDEN)
}

/// Whether all destinations accept this name, hidden or not.
pub(super) fn is_label_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}
