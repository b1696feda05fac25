//! Makes the labels of a process.

use super::{
    host::Host,
    meta,
    relabel::Rules,
    service,
    set::{LabelSet, Labels, truncate},
    subject::Subject,
};

/// Most bytes of a value; Pyroscope refuses longer ones.
pub(super) const MAX_VALUE: usize = 2048;

/// Makes labels from metadata.
#[derive(Clone, Debug, Default)]
pub struct Labeller {
    /// The host.
    pub host: Host,
    /// Relabeling rules.
    pub rules: Rules,
    /// Whether each process has its own series.
    pub per_process: bool,
}

impl Labeller {
    /// The labels of a process; [`None`] if the rules drop it: then it is not profiled.
    #[must_use]
    pub fn labels(&self, subject: &Subject) -> Option<Labels> {
        let mut set = LabelSet::default();
        self.add(&mut set, subject);
        meta::add(&mut set, subject);
        let mut labels = self.rules.apply(set.0)?;
        for value in labels.values_mut() {
            truncate(value, MAX_VALUE);
        }
        Some(Labels(labels))
    }

    /// Adds the labels that remain unless rules remove them.
    fn add(&self, set: &mut LabelSet, subject: &Subject) {
        let Subject {
            metadata,
            container_info,
        } = *subject;
        let attribute = |name| metadata.attributes.get(name).map(str::to_owned);
        set.add(
            "service_name",
            Some(service::name(metadata, container_info)),
        );
        set.add("service_namespace", attribute("service.namespace"));
        set.add("service_version", attribute("service.version"));
        set.add(
            "deployment_environment",
            attribute("deployment.environment.name")
                .or_else(|| attribute("deployment.environment")),
        );

        let pod = container_info.and_then(|container_info| container_info.pod.as_deref());
        let container = container_info.and_then(|container_info| container_info.container.clone());
        if let Some(pod) = pod {
            set.add("namespace", Some(pod.namespace.clone()));
            set.add("pod", Some(pod.name.clone()));
            set.add("container", container);
        } else {
            set.add("container_name", container);
        }
        let node = pod.and_then(|pod| pod.node.clone());
        set.add("node", node.or_else(|| self.host.node.clone()));
        let container = metadata.cgroup.container();
        set.add("container_id", container.map(|it| it.id.clone()));
        let runtime = container.and_then(|it| it.runtime);
        set.add(
            "container_runtime",
            runtime.map(|it| it.as_str().to_owned()),
        );
        // Each session has a scope of its own, and would have a label.
        let unit = metadata.cgroup.unit.clone();
        set.add(
            "systemd_unit",
            unit.filter(|unit| unit.strip_suffix(".service").is_some()),
        );

        set.add("host_name", Some(self.host.name.clone()));
        set.add("host_arch", Some(self.host.architecture.to_owned()));
        if let Some(runtime) = &metadata.runtime {
            set.add("process_runtime_name", Some(runtime.name.to_owned()));
            set.add("process_runtime_version", Some(runtime.version.clone()));
        }
        if self.per_process {
            set.add("process_id", Some(metadata.pid.to_string()));
            set.add("process_executable_name", Some(metadata.executable_name()));
        }
    }
}
