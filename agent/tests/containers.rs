//! The container, pod and unit of processes, with control groups of the kernel and a container of
//! Podman.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio, id},
    thread,
    time::{Duration, Instant},
};

use agent::testing::{
    process::{
        Process,
        cgroup::{Cgroup, ContainerRuntime, QosClass},
    },
    targets::labels::{
        self, Labeller,
        metadata::{MetadataOptions, ProcessMetadata},
        pods::{HostFiles, Pods},
    },
};
use test_support::{child, control_groups::Groups};
use xtask::{packages, tools};

const ID: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";
const OTHER: &str = "77aabbccddeeff00112233445566778899aabbccddeeff001122334455667788";
const UID: &str = "8c1f3a9e-7b2d-4f53-9a01-2b7cf2a1d9e4";

/// How long a container may take to start.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The parsed control group of a process in this group.
fn cgroup_at(groups: &mut Groups, path: &str) -> Cgroup {
    let group = groups.add(path);
    let sleeper = Sleeper::start();
    fs::write(group.join("cgroup.procs"), sleeper.0.id().to_string()).unwrap();
    let process = Process::open(sleeper.0.id()).unwrap();
    process.cgroup().unwrap()
}

/// A process that does nothing.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(child::start(Command::new("sleep").arg("600")))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn cgroups_of_the_kernel_are_parsed() {
    let mut groups = Groups::new("names");
    let escaped = UID.replace('-', "_");
    let pod =
        format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{escaped}.slice");
    let cgroup = cgroup_at(&mut groups, &format!("{pod}/cri-containerd-{ID}.scope"));
    assert_eq!(cgroup.container().unwrap().id, ID);
    assert_eq!(
        cgroup.container().unwrap().runtime,
        Some(ContainerRuntime::Containerd)
    );
    assert_eq!(cgroup.pod.as_ref().unwrap().uid, UID);
    assert_eq!(
        cgroup.pod.as_ref().unwrap().qos_class,
        Some(QosClass::Burstable)
    );
    assert!(
        cgroup.is_within(&format!("/agent-names-{}", id())),
        "{cgroup:?}"
    );

    let cgroup = cgroup_at(
        &mut groups,
        &format!("kubepods/besteffort/pod{UID}/{ID}/docker/{OTHER}"),
    );
    assert_eq!(cgroup.container().unwrap().id, ID);
    assert_eq!(cgroup.containers.len(), 2);
    assert_eq!(
        cgroup.pod.as_ref().unwrap().qos_class,
        Some(QosClass::BestEffort)
    );

    let cgroup = cgroup_at(&mut groups, "system.slice/web.service/worker");
    assert_eq!(cgroup.unit.as_deref(), Some("web.service"));
    assert_eq!(cgroup.container(), None);
}

#[test]
fn cgroups_outside_of_a_cgroup_namespace_are_parsed() {
    let mut groups = Groups::new("private");
    let other = groups.add(&format!("pod{UID}/cri-containerd-{ID}.scope"));
    let own = groups.add(&format!("pod-of-agent/cri-containerd-{OTHER}.scope"));
    let sleeper = Sleeper::start();
    fs::write(other.join("cgroup.procs"), sleeper.0.id().to_string()).unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec unshare --cgroup cat /proc/{}/cgroup",
        own.display(),
        sleeper.0.id()
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("::/../../"), "{text}");
    let cgroup = Cgroup::parse(text.as_bytes());
    assert_eq!(cgroup.container().unwrap().id, ID);
    assert_eq!(cgroup.pod.as_ref().unwrap().uid, UID);
}

/// A container, removed on drop.
struct Container {
    name: String,
    id: String,
}

impl Container {
    /// Runs busybox as `sleep` in a pod's group.
    fn run(root: &Path) -> Self {
        packages::install(&["podman", "runc", "busybox-static"]).unwrap();
        let programs = root.join("bin");
        fs::create_dir_all(&programs).unwrap();
        fs::copy(tools::BUSYBOX.path(), programs.join("busybox")).unwrap();
        symlink("busybox", programs.join("sleep")).unwrap();
        let name = format!("agent-labels-{}", id());
        let output = podman()
            .args(["run", "--detach", "--network=none", "--name", &name])
            // The limits of the machine may be lower than the default of Podman.
            .args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"])
            .arg(format!("--cgroup-parent=/kubepods/burstable/pod{UID}"))
            .arg("--env=OTEL_RESOURCE_ATTRIBUTES=service.version=1.2%2B3,deployment.environment.name=test")
            .arg("--rootfs")
            .arg(root)
            .args(["/bin/sleep", "600"])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        Self { name, id }
    }

    fn pid(&self) -> u32 {
        let output = podman()
            .args(["inspect", "--format", "{{.State.Pid}}", &self.name])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = podman()
            .args(["rm", "--force", "--time=0", &self.name])
            .output();
    }
}

fn podman() -> Command {
    let mut podman = Command::new("podman");
    podman.args(["--runtime=runc", "--cgroup-manager=cgroupfs"]);
    podman
}

#[test]
fn a_podman_container_has_its_name() {
    let root = tempfile::tempdir().unwrap();
    let container = Container::run(root.path());
    let pid = container.pid();
    let start = Instant::now();
    let process = loop {
        let process = Process::open(pid).unwrap();
        if process.executable().ends_with("busybox") {
            break process;
        }
        assert!(
            start.elapsed() < TIMEOUT,
            "it is still {}",
            process.executable().display()
        );
        thread::sleep(Duration::from_millis(10));
    };
    let metadata = ProcessMetadata::read(&process, MetadataOptions::default()).unwrap();
    let group = metadata.cgroup.container().unwrap();
    assert_eq!(group.id, container.id);
    assert_eq!(group.runtime, Some(ContainerRuntime::Podman));
    assert_eq!(metadata.cgroup.pod.as_ref().unwrap().uid, UID);

    let container_info = Pods::new(HostFiles::new("/"), false)
        .find(&metadata.cgroup)
        .container_info;
    let labels = Labeller::default()
        .labels(&labels::Subject {
            metadata: &metadata,
            container_info: container_info.as_ref(),
        })
        .unwrap();
    for (name, value) in [
        ("service_name", container.name.as_str()),
        ("service_version", "1.2+3"),
        ("deployment_environment", "test"),
        ("container_name", container.name.as_str()),
        ("container_id", container.id.as_str()),
        ("container_runtime", "podman"),
    ] {
        assert_eq!(labels.get(name), Some(value), "{labels:?}");
    }
}
