//! The files in `deploy/`: each is valid for its tool, and they are consistent with each other.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod rendered;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use agent::testing::config::CLUSTER_VARIABLES;
use serde::Deserialize as _;
use serde_yaml_ng::{Deserializer, Value};
use test_support::{
    child,
    containerfile::{documented_capabilities, documented_options},
};
use xtask::{packages, pip, process::find_program};

/// Highest exposure level of the service in `systemd-analyze security`, out of 10.
const MAX_EXPOSURE: f64 = 2.8;

/// The version of `kubernetes-validate`, and the versions of Kubernetes to validate for.
const KUBERNETES_VALIDATE: &str = "1.37.0";
const KUBERNETES: [&str; 2] = ["1.30", "1.37"];

/// Manifests, without the file for kustomize.
const MANIFESTS: [&str; 7] = [
    "namespace.yaml",
    "service-account.yaml",
    "cluster-role.yaml",
    "cluster-role-binding.yaml",
    "daemon-set.yaml",
    "network-policy.yaml",
    "priority-class.yaml",
];

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(deploy(path)).unwrap()
}

fn yaml(path: &str) -> Value {
    Value::deserialize(Deserializer::from_str(&read(path))).unwrap()
}

/// Output of a command, which must succeed.
fn output(command: &mut Command) -> String {
    let output = child::without_variables_of_tests(command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}{messages}");
    text + &messages
}

/// The settings of a unit of this name; a setting may be given more than once.
fn settings(unit: &str, name: &str) -> Vec<String> {
    let lines = read(unit);
    let values = lines.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key == name).then(|| value.to_owned())
    });
    values.collect()
}

/// The capabilities of a unit, without `CAP_`.
fn capabilities(unit: &str, setting: &str) -> BTreeSet<String> {
    let lists = settings(unit, setting);
    let names = lists.iter().flat_map(|list| list.split_whitespace());
    names
        .map(|name| name.strip_prefix("CAP_").unwrap().to_owned())
        .collect()
}

fn texts(list: &Value) -> BTreeSet<String> {
    let list = list.as_sequence().unwrap().iter();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_configurations_are_valid() {
    for path in ["agent.yaml", "kubernetes/config.yaml"] {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
        agent.args(["run", "--check-config", "--config"]);
        let answer = output(agent.arg(deploy(path)));
        assert_eq!(answer, "configuration is valid\n", "{path}");
    }
}

#[test]
fn the_units_are_valid_and_have_a_low_exposure_level() {
    packages::install(&["systemd"]).unwrap();
    for unit in ["agent.service", "agent@.service"] {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=yes", "--no-pager"]);
        let output = analyze.arg(deploy(unit)).output().unwrap();
        // It warns about ignored settings on standard error.
        let messages = String::from_utf8(output.stderr).unwrap();
        assert_eq!(messages, "", "{unit}");
        let answer = String::from_utf8(output.stdout).unwrap();
        let (_, exposure) = answer.split_once("Overall exposure level for ").unwrap();
        let (_, exposure) = exposure.split_once(": ").unwrap();
        let exposure: f64 = exposure.split(' ').next().unwrap().parse().unwrap();
        assert!(exposure <= MAX_EXPOSURE, "{unit}: {answer}");
    }
}

#[test]
fn the_service_and_the_daemon_set_have_the_same_capabilities() {
    let service = capabilities("agent.service", "CapabilityBoundingSet");
    assert_eq!(
        capabilities("agent.service", "AmbientCapabilities"),
        service
    );
    assert!(service.len() >= 4);
    let set = yaml("kubernetes/daemon-set.yaml");
    let pod = &set["spec"]["template"]["spec"];
    let context = &pod["containers"][0]["securityContext"];
    assert_eq!(
        texts(&context["capabilities"]["add"]),
        documented_capabilities()
    );
    assert_eq!(texts(&context["capabilities"]["drop"]).len(), 1);
    assert_eq!(context["privileged"].as_bool(), Some(false));
    assert_eq!(pod["hostPID"].as_bool(), Some(true));
}

#[test]
fn the_daemon_set_has_its_node_and_may_only_list_pods() {
    let set = yaml("kubernetes/daemon-set.yaml");
    let pod = &set["spec"]["template"]["spec"];
    let account = yaml("kubernetes/service-account.yaml");
    assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
    assert_eq!(pod["automountServiceAccountToken"].as_bool(), Some(true));
    let variables = pod["containers"][0]["env"].as_sequence().unwrap();
    let node = variables.iter().find(|it| it["name"] == "NODE_NAME");
    let source = &node.unwrap()["valueFrom"]["fieldRef"]["fieldPath"];
    assert_eq!(source.as_str(), Some("spec.nodeName"));
    assert!(CLUSTER_VARIABLES.contains(&"NODE_NAME"));

    let role = yaml("kubernetes/cluster-role.yaml");
    let allowed = role["rules"].as_sequence().unwrap();
    assert_eq!(allowed.len(), 1, "{role:?}");
    for (name, value) in [("apiGroups", ""), ("resources", "pods"), ("verbs", "list")] {
        assert_eq!(
            texts(&allowed[0][name]),
            [value.to_owned()].into(),
            "{name}"
        );
    }
    let binding = yaml("kubernetes/cluster-role-binding.yaml");
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    let subject = &binding["subjects"][0];
    assert_eq!(subject["name"], account["metadata"]["name"]);
    let namespace = yaml("kubernetes/namespace.yaml");
    assert_eq!(subject["namespace"], namespace["metadata"]["name"]);
}

#[test]
fn the_image_documents_the_capabilities_of_the_service_and_one_for_debian() {
    let mut expected = capabilities("agent.service", "CapabilityBoundingSet");
    // The package lowers kernel.perf_event_paranoid, a container does not.
    assert!(expected.insert("SYS_ADMIN".to_owned()));
    assert_eq!(documented_capabilities(), expected);
}

#[test]
fn the_daemon_set_has_the_options_of_the_image() {
    let options = documented_options();
    let is_documented = |option: &str| options.iter().any(|it| it == option);
    let set = yaml("kubernetes/daemon-set.yaml");
    let pod = &set["spec"]["template"]["spec"];
    let context = &pod["containers"][0]["securityContext"];
    assert!(is_documented("--pid=host"));
    assert_eq!(pod["hostPID"].as_bool(), Some(true));
    assert!(is_documented("--read-only"));
    assert_eq!(context["readOnlyRootFilesystem"].as_bool(), Some(true));
    assert!(is_documented("--security-opt=no-new-privileges"));
    assert_eq!(context["allowPrivilegeEscalation"].as_bool(), Some(false));
    assert!(is_documented("--cap-drop=all"));
    assert_eq!(
        texts(&context["capabilities"]["drop"]),
        ["ALL".to_owned()].into()
    );
    // Podman runs it as root, as the capabilities require.
    assert!(!options.iter().any(|option| option.starts_with("--user")));
    assert_eq!(context["runAsUser"].as_u64(), Some(0));
}

/// Calls that the image allows and the service does not: `agent dump` is run in containers, and not by units.
const CALLS_OF_DUMPS: [&str; 1] = ["sched_setaffinity"];

/// System calls with which a process reaches others, other namespaces or keys, and that the agent never
/// makes.
const DENIED_CALLS: [&str; 13] = [
    "add_key",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kcmp",
    "keyctl",
    "mount",
    "process_madvise",
    "process_vm_writev",
    "request_key",
    "setns",
    "unshare",
    "userfaultfd",
];

/// The system calls of a set of systemd, including those of nested sets.
fn system_calls(set: &str) -> BTreeSet<String> {
    let mut analyze = Command::new("systemd-analyze");
    let answer = output(analyze.args(["--no-pager", "syscall-filter", set]));
    let mut names = BTreeSet::new();
    for name in answer.lines().skip(1).map(str::trim) {
        if name.starts_with('@') {
            names.extend(system_calls(name));
        } else if !name.is_empty() && !name.starts_with('#') {
            names.insert(name.to_owned());
        }
    }
    names
}

#[test]
fn the_image_allows_only_system_calls_of_the_service() {
    packages::install(&["systemd"]).unwrap();
    let mut service = BTreeSet::new();
    for list in settings("agent.service", "SystemCallFilter") {
        let (is_denied, list) = match list.strip_prefix('~') {
            Some(list) => (true, list),
            None => (false, &*list),
        };
        for name in list.split_whitespace() {
            let names = if name.starts_with('@') {
                system_calls(name)
            } else {
                [name.to_owned()].into()
            };
            if is_denied {
                service.retain(|call| !names.contains(call));
            } else {
                service.extend(names);
            }
        }
    }
    let filter: Value = serde_yaml_ng::from_str(&read("seccomp.json")).unwrap();
    assert_eq!(filter["defaultAction"].as_str(), Some("SCMP_ACT_ERRNO"));
    let rules = filter["syscalls"].as_sequence().unwrap();
    assert_eq!(rules.len(), 1);
    let image = texts(&rules[0]["names"]);
    for needed in ["bpf", "perf_event_open", "openat2"] {
        assert!(image.contains(needed), "{needed}");
    }
    for denied in DENIED_CALLS {
        assert!(!service.contains(denied), "{denied}");
    }
    // The set of another version of systemd may be larger.
    let more: Vec<_> = image.difference(&service).map(String::as_str).collect();
    assert_eq!(more, CALLS_OF_DUMPS);
}

#[test]
fn the_kustomization_has_every_manifest_and_this_version() {
    let kustomization = yaml("kubernetes/kustomization.yaml");
    assert_eq!(
        texts(&kustomization["resources"]),
        MANIFESTS.map(str::to_owned).into()
    );
    let image = &kustomization["images"][0];
    assert_eq!(image["newTag"].as_str(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_priority_class_preempts_nobody() {
    let set = yaml("kubernetes/daemon-set.yaml");
    let class = yaml("kubernetes/priority-class.yaml");
    let name = &set["spec"]["template"]["spec"]["priorityClassName"];
    assert_eq!(*name, class["metadata"]["name"]);
    assert_eq!(class["preemptionPolicy"].as_str(), Some("Never"));
    // Above it are those of Kubernetes itself.
    assert!(class["value"].as_u64().unwrap() < 1_000_000_000);
}

#[test]
fn the_changelog_begins_with_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("debian/changelog").starts_with(&format!("agent ({version}-1) ")));
}

#[test]
fn the_manifests_are_valid() {
    let python = validating_python();
    for version in KUBERNETES {
        let mut validate = Command::new(&python);
        validate.args(["-m", "kubernetes_validate", "--strict", "-k", version]);
        validate.args(MANIFESTS.map(|name| deploy("kubernetes").join(name)));
        let answer = output(&mut validate);
        assert_eq!(answer.matches(" passed ").count(), MANIFESTS.len());
    }
}

/// An interpreter with `kubernetes-validate` and what that imports.
fn validating_python() -> PathBuf {
    packages::install(&["python3-venv"]).unwrap();
    let python = find_program("python3").unwrap();
    let environment = pip::ensure(&python, "kubernetes-validate", KUBERNETES_VALIDATE).unwrap();
    environment.join("bin/python")
}
