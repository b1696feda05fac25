//! What kustomize and Helm make of the manifests: by default the same.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde::Deserialize as _;
use serde_yaml_ng::{Deserializer, Value};
use xtask::reference_tools;

use super::{deploy, output, yaml};

/// The annotation of the chart that starts the agents again for another configuration; kustomize changes
/// the name of the configuration instead.
const CHECKSUM: &str = "checksum/config";

/// Objects by kind and name.
type Objects = BTreeMap<(String, String), Value>;

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn objects(manifests: &str) -> Objects {
    let mut objects = Objects::new();
    for document in Deserializer::from_str(manifests) {
        let object = Value::deserialize(document).unwrap();
        if !object.is_null() {
            let name = (text(&object["kind"]), text(&object["metadata"]["name"]));
            assert_eq!(objects.insert(name, object), None);
        }
    }
    objects
}

fn kustomize(folder: &Path) -> Objects {
    let mut kustomize = Command::new(reference_tools::renderers().unwrap().kustomize);
    objects(&output(kustomize.arg("build").arg(folder)))
}

/// The chart with these values beside its own, as YAML.
fn helm(values: &str) -> Objects {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    fs::write(&file, values).unwrap();
    let helm = || {
        let mut helm = Command::new(reference_tools::renderers().unwrap().helm);
        // Neither the user's settings nor a cluster.
        for name in ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"] {
            helm.env(name, folder.path());
        }
        helm.env("KUBECONFIG", "/dev/null");
        helm
    };
    let chart = deploy("helm/agent");
    output(helm().arg("lint").arg(&chart));
    let mut template = helm();
    template
        .args(["template", "agent"])
        .arg(&chart)
        .arg("agent");
    objects(&output(template.arg(file)))
}

/// The object of this kind.
fn of<'a>(objects: &'a Objects, kind: &str) -> Option<&'a Value> {
    let mut found = objects.iter().filter(|((it, _), _)| it == kind);
    let (_, object) = found.next()?;
    assert!(found.next().is_none(), "{kind}");
    Some(object)
}

/// Without the two ways to start the agents again, and with the configuration as a value.
fn comparable(objects: Objects) -> Objects {
    let mut comparable = Objects::new();
    for ((kind, mut name), mut object) in objects {
        match &*kind {
            // `helm install --create-namespace` makes it.
            "Namespace" => continue,
            "ConfigMap" => {
                "agent".clone_into(&mut name);
                object["metadata"]["name"] = name.clone().into();
                let file = &mut object["data"]["agent.yaml"];
                *file = serde_yaml_ng::from_str(file.as_str().unwrap()).unwrap();
            }
            "DaemonSet" => {
                let template = &mut object["spec"]["template"];
                let annotations = template["metadata"]["annotations"].as_mapping_mut();
                annotations.unwrap().remove(CHECKSUM);
                let volumes = template["spec"]["volumes"].as_sequence_mut().unwrap();
                let name = &mut volumes[0]["configMap"]["name"];
                assert!(name.as_str().unwrap().starts_with("agent"));
                *name = "agent".into();
            }
            _ => (),
        }
        comparable.insert((kind, name), object);
    }
    comparable
}

#[test]
fn the_chart_is_the_kustomization() {
    let expected = comparable(kustomize(&deploy("kubernetes")));
    let chart = comparable(helm("{}"));
    assert!(expected.len() >= 7);
    assert_eq!(
        chart.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    for (name, object) in &expected {
        assert_eq!(chart[name], *object, "{name:?}");
    }
}

#[test]
fn the_chart_has_this_version() {
    let chart = yaml("helm/agent/Chart.yaml");
    for key in ["version", "appVersion"] {
        assert_eq!(
            chart[key].as_str(),
            Some(env!("CARGO_PKG_VERSION")),
            "{key}"
        );
    }
}

#[test]
fn the_chart_has_what_its_values_say() {
    let values = "
image: {repository: registry.example/agent, tag: \"7\"}
imagePullSecrets: [{name: registry}]
config: {rate: 97, exporters: {parca: {type: parca, url: 'http://parca:7070'}}}
volumes: [{name: token, secret: {secretName: agent}}]
volumeMounts: [{name: token, mountPath: /etc/agent-token}]
resources: null
tolerations: []
seLinuxOptions: {type: spc_t}
priorityClass: {create: false, name: high}
networkPolicy: {enabled: false}
podMonitor: {enabled: true, labels: {release: prometheus}}
";
    let chart = helm(values);
    for absent in ["PriorityClass", "NetworkPolicy"] {
        assert_eq!(of(&chart, absent), None);
    }
    let monitor = of(&chart, "PodMonitor").unwrap();
    assert_eq!(
        text(&monitor["metadata"]["labels"]["release"]),
        "prometheus"
    );
    let template = &of(&chart, "DaemonSet").unwrap()["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert_eq!(&monitor["spec"]["selector"]["matchLabels"], labels);
    // The operator's Prometheus must not scrape them twice.
    let annotations = template["metadata"]["annotations"].as_mapping().unwrap();
    assert!(annotations.keys().all(|name| name == CHECKSUM));
    let pod = &template["spec"];
    assert_eq!(text(&pod["priorityClassName"]), "high");
    assert_eq!(text(&pod["imagePullSecrets"][0]["name"]), "registry");
    assert_eq!(
        text(&pod["securityContext"]["seLinuxOptions"]["type"]),
        "spc_t"
    );
    assert!(pod.get("tolerations").is_none());
    let volumes = pod["volumes"].as_sequence().unwrap();
    assert_eq!(text(&volumes[2]["secret"]["secretName"]), "agent");
    let container = &pod["containers"][0];
    assert_eq!(text(&container["image"]), "registry.example/agent:7");
    assert!(container.get("resources").is_none());
    assert_eq!(text(&container["volumeMounts"][2]["name"]), "token");

    // The agent accepts the configuration, with the defaults of the chart.
    let config = text(&of(&chart, "ConfigMap").unwrap()["data"]["agent.yaml"]);
    let keys: Value = serde_yaml_ng::from_str(&config).unwrap();
    assert_eq!(keys["rate"].as_u64(), Some(97));
    assert_eq!(text(&keys["host_root"]), "/proc/1/root");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.yaml");
    fs::write(&file, config).unwrap();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
    agent.args(["run", "--check-config", "--config"]);
    assert_eq!(output(agent.arg(file)), "configuration is valid\n");
}

#[test]
fn the_component_is_added_by_its_comment() {
    let folder = tempfile::tempdir().unwrap();
    let copied = folder.path().join("kubernetes");
    output(
        Command::new("cp")
            .arg("--recursive")
            .arg(deploy("kubernetes"))
            .arg(&copied),
    );
    let file = copied.join("kustomization.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replace(
        "#components:\n#  - monitoring\n",
        "components:\n  - monitoring\n",
    );
    assert_ne!(changed, text);
    fs::write(&file, changed).unwrap();
    let objects = kustomize(&copied);
    for kind in ["PodMonitor", "PrometheusRule"] {
        let namespace = &of(&objects, kind).unwrap()["metadata"]["namespace"];
        assert_eq!(namespace.as_str(), Some("agent"), "{kind}");
    }
}
