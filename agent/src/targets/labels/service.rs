//! The name of a service, from the metadata of one of its processes.
//!
//! The first of these that exists:
//!
//! 1. `OTEL_SERVICE_NAME` of its environment,
//! 2. `service.name` in `OTEL_RESOURCE_ATTRIBUTES`,
//! 3. the label `app.kubernetes.io/name` of its pod, or the older `k8s-app` and `app`,
//! 4. the name of its container,
//! 5. the unit of systemd, if it is a service, without `.service`; scopes of sessions and the
//!    managers of users do not count,
//! 6. the script or module that it runs, or of which it is a worker, if it is an interpreter,
//! 7. the name of its executable,
//! 8. its comm.

use super::{metadata::ProcessMetadata, pods::ContainerInfo};

/// Labels of pods that name their service.
const POD_LABELS: [&str; 3] = ["app.kubernetes.io/name", "k8s-app", "app"];

/// The name of the service.
pub(super) fn name(metadata: &ProcessMetadata, container_info: Option<&ContainerInfo>) -> String {
    let pod = || {
        let pod = container_info?.pod.as_ref()?;
        let mut labels = POD_LABELS.iter().filter_map(|label| pod.labels.get(*label));
        labels.find(|value| !value.is_empty()).cloned()
    };
    let executable = || Some(metadata.executable_name()).filter(|name| !name.is_empty());
    let attribute = metadata.attributes.get("service.name").map(str::to_owned);
    attribute
        .or_else(pod)
        .or_else(|| container_info?.container.clone())
        .or_else(|| unit(metadata))
        .or_else(|| metadata.script.clone())
        .or_else(executable)
        .unwrap_or_else(|| metadata.comm.clone())
}

fn unit(metadata: &ProcessMetadata) -> Option<String> {
    let name = metadata.cgroup.unit.as_ref()?.strip_suffix(".service")?;
    let is_manager = name.starts_with("user@");
    (!is_manager && !name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::name;
    use crate::{
        process::cgroup::Cgroup,
        targets::labels::{
            attributes::Attributes,
            metadata::ProcessMetadata,
            pods::{ContainerInfo, Pod},
        },
    };
    use std::sync::Arc;

    #[test]
    fn the_first_that_there_is_counts() {
        let labels = [("app", "c"), ("app.kubernetes.io/name", "b")];
        let pod = Pod {
            labels: labels
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Pod::default()
        };
        let mut container_info = ContainerInfo {
            container: Some("d".to_owned()),
            pod: Some(Arc::new(pod)),
            ..ContainerInfo::default()
        };
        let mut metadata = ProcessMetadata {
            comm: "h".to_owned(),
            executable: "/usr/bin/g".into(),
            script: Some("f".to_owned()),
            cgroup: Cgroup::parse(b"0::/system.slice/e.service"),
            attributes: Attributes::new(Some("a"), Some("service.name=x")),
            ..ProcessMetadata::default()
        };
        assert_eq!(name(&metadata, Some(&container_info)), "a");
        metadata.attributes = Attributes::default();
        assert_eq!(name(&metadata, Some(&container_info)), "b");
        let mut pod = container_info.pod.as_deref().unwrap().clone();
        pod.labels.remove("app.kubernetes.io/name");
        container_info.pod = Some(Arc::new(pod));
        assert_eq!(name(&metadata, Some(&container_info)), "c");
        container_info.pod = Some(Arc::default());
        assert_eq!(name(&metadata, Some(&container_info)), "d");
        assert_eq!(name(&metadata, None), "e");
        for unit in ["session-1.scope", "user@1000.service", "x.slice"] {
            metadata.cgroup = Cgroup::parse(format!("0::/user.slice/{unit}").as_bytes());
            assert_eq!(name(&metadata, None), "f", "{unit}");
        }
        metadata.script = None;
        assert_eq!(name(&metadata, None), "g");
        metadata.executable = "/".into();
        assert_eq!(name(&metadata, None), "h");
    }
}
