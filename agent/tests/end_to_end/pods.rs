//! A process in a pod of a cluster, profiled by the agent of its node.

use std::{
    fs,
    path::{Path, PathBuf},
    process::id,
    thread,
    time::Duration,
};

use serde_json::json;
use tempfile::TempDir;
use xtask::cluster::Cluster;

use super::{
    capture::Capture,
    folded::Folded,
    host::{Host, PROFILES, RATE, SECOND, wait_for_cpu},
    machine,
    target::{Target, mortal, workload_path},
};

const CONTAINER: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";

/// The pod that the process is in.
fn pod() -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shop-7d9f", "namespace": "prod", "labels": {"team.example/name": "pay"}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "web", "image": "shop"}]},
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "web", "containerID": format!("containerd://{CONTAINER}"), "image": "shop",
            "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}},
            "lastState": {}
        }]}
    });
    pod.to_string()
}

/// The control group of a container, as kubelet names it, below one of this test; removed with its
/// parents when it is dropped.
struct Group {
    top: PathBuf,
    innermost: PathBuf,
}

impl Group {
    fn make(uid: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let hierarchy = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, kind) = (fields.next()?, fields.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(path))
        });
        let top = hierarchy.unwrap().join(format!("agent-pods-{}", id()));
        let innermost = top.join(format!("kubepods/burstable/pod{uid}/{CONTAINER}"));
        fs::create_dir_all(&innermost).unwrap();
        Self { top, innermost }
    }

    /// Runs a workload in it from its first instruction on, and waits until it is ready.
    fn run(&self, workload: &str) -> Target {
        let mut command = mortal("sh");
        let members = self.innermost.join("cgroup.procs");
        command
            .arg("-c")
            .arg(r#"echo $$ > "$0" && exec "$@""#)
            .arg(members)
            .arg(&machine::one_interpreter().path)
            .args(["-E", "-s", "-B"])
            .arg(workload_path(workload));
        Target::from_command(command)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for group in self.innermost.ancestors() {
            // A process that has just ended may still be counted.
            for _ in 0..200 {
                if fs::remove_dir(group).is_ok() {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
            if group == self.top {
                return;
            }
        }
    }
}

/// The stored profiles with these labels, merged.
fn stored(folder: &Path, labels: &[&str]) -> Folded {
    let folder = folder.join(PROFILES);
    let mut line = vec!["report", "--folder", folder.to_str().unwrap()];
    line.extend(labels.iter().flat_map(|label| ["--label", label]));
    line.extend(["-f", "folded", "-o", "-"]);
    Capture::run(&line).into_folded()
}

#[test]
fn a_process_in_a_pod_has_the_names_and_labels_of_its_pod() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(directory.path()).unwrap();
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes");
    let manifests = manifests.to_str().unwrap();
    let apply = ["apply", "--validate=false", "-k", manifests];
    cluster.kubectl(&apply, "").unwrap();
    let namespace = ["create", "namespace", "prod"];
    cluster.kubectl(&namespace, "").unwrap();
    let token = directory.path().join("token");
    fs::write(&token, cluster.token("agent", "agent").unwrap()).unwrap();

    let (port, ca, token) = (cluster.port(), cluster.ca_file(), token.display());
    let host = Host::start(&format!(
        "node: node-1\nkubernetes: {{from: api-server, url: 'https://127.0.0.1:{port}', \
         ca_file: {}, token_file: {token}}}\n\
         relabel_configs: [{{source_labels: [__meta_kubernetes_pod_label_team_example_name], \
         target_label: team}}]",
        ca.display()
    ));
    // A pod that is created after the agent has started.
    let uid = cluster.run_pod("prod", "shop-7d9f", &pod()).unwrap();
    let group = Group::make(&uid);
    let busy = group.run("busy");
    wait_for_cpu(&busy, SECOND * 2);
    drop(busy);
    // The last window must be exported before the metrics are read.
    thread::sleep(Duration::from_secs(3));
    let metrics = host.metrics();
    let folder = host.stop();

    let pod_labels = ["namespace=prod", "pod=shop-7d9f", "container=web"];
    let named = stored(folder.path(), &pod_labels);
    let labels = [&pod_labels[..], &["team=pay", "node=node-1"]].concat();
    let labelled = stored(folder.path(), &labels);
    assert!(labelled.total() >= RATE, "{}", labelled.total());
    assert_eq!(labelled.total(), named.total());
    let source = r#"{source="api_server"}"#;
    assert!(metrics[&format!("profiling_agent_pod_requests_total{source}")] >= 1.0);
    assert!((metrics[&format!("profiling_agent_pods{source}")] - 1.0).abs() < f64::EPSILON);
    assert!(
        !metrics
            .keys()
            .any(|name| name.contains("pod_request_failures"))
    );
}
