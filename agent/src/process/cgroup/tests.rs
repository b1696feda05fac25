use super::{Cgroup, ContainerRuntime, container::QosClass};
use proptest::prelude::{any, proptest};

const ID: &str = "1cbbbc3e0ecd42a94a9a7c1f2d3e4f5061728394a5b6c7d8e9f00112233445aa";
const OTHER: &str = "77aabbccddeeff00112233445566778899aabbccddeeff001122334455667788";
const UID: &str = "8c1f3a9e-7b2d-4f53-9a01-2b7cf2a1d9e4";
const ESCAPED: &str = "8c1f3a9e_7b2d_4f53_9a01_2b7cf2a1d9e4";

/// The control groups of a process on a host with cgroup v2 alone.
fn unified(path: &str) -> Cgroup {
    let path = path
        .replace("{id}", ID)
        .replace("{other}", OTHER)
        .replace("{uid}", UID)
        .replace("{escaped}", ESCAPED);
    Cgroup::parse(format!("0::{path}\n").as_bytes())
}

#[track_caller]
fn check_container(path: &str, id: &str, runtime: Option<ContainerRuntime>) {
    let cgroup = unified(path);
    let container = cgroup.container();
    assert_eq!(container.map(|it| it.id.as_str()), Some(id), "{path}");
    assert_eq!(container.and_then(|it| it.runtime), runtime, "{path}");
    assert_eq!(cgroup.unit, None, "{path}");
}

#[test]
fn containers_of_all_runtimes_are_recognised() {
    let docker = Some(ContainerRuntime::Docker);
    check_container("/system.slice/docker-{id}.scope", ID, docker);
    check_container("/docker/{id}", ID, docker);
    check_container("/docker/{id}/init", ID, docker);
    let containerd = Some(ContainerRuntime::Containerd);
    check_container("/system.slice/nerdctl-{id}.scope", ID, containerd);
    check_container("/default/{id}", ID, containerd);
    let podman = Some(ContainerRuntime::Podman);
    check_container("/machine.slice/libpod-{id}.scope/container", ID, podman);
    check_container("/libpod_parent/libpod-{id}", ID, podman);
    check_container("/libpod_parent/{other}/libpod-{id}", ID, podman);
    check_container(
        "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{id}.scope",
        ID,
        podman,
    );
    check_container("/system.slice/x.service/libpod-payload-{id}", ID, podman);
    let lxc = Some(ContainerRuntime::Lxc);
    check_container("/lxc/web", "web", lxc);
    check_container("/lxc.payload/web", "web", lxc);
    check_container("/lxc.payload.web", "web", lxc);
    let nspawn = Some(ContainerRuntime::Nspawn);
    check_container(
        r"/machine.slice/machine-de\x2dbian.scope",
        "de-bian",
        nspawn,
    );
    check_container(
        "/machine.slice/systemd-nspawn@debian.service/payload",
        "debian",
        nspawn,
    );
    check_container("/actions_job/{id}", ID, None);
    check_container("/ecs/0123456789abcdef0123456789abcdef/{id}", ID, None);
    let task = "0123456789abcdef0123456789abcdef-1234567890";
    check_container(
        &format!("/ecs/0123456789abcdef0123456789abcdef/{task}"),
        task,
        None,
    );
}

#[test]
fn monitors_of_containers_are_outside_them() {
    for path in [
        "/libpod_parent/conmon",
        "/machine.slice/libpod-conmon-{id}.scope",
        "/kubepods.slice/kubepods-pod{escaped}.slice/crio-conmon-{id}.scope",
        "/lxc.monitor.web",
        "/lxc.monitor/web",
        "/machine.slice/machine-debian.scope/supervisor",
        r"/machine.slice/machine-qemu\x2d1\x2dweb.scope",
        "/system.slice/containerd.service",
    ] {
        assert_eq!(unified(path).container(), None, "{path}");
    }
}

#[track_caller]
fn check_pod(path: &str, qos_class: QosClass, runtime: Option<ContainerRuntime>) {
    let cgroup = unified(path);
    let pod = cgroup
        .pod
        .as_ref()
        .unwrap_or_else(|| panic!("no pod in {path}"));
    assert_eq!(pod.uid, UID, "{path}");
    assert_eq!(pod.qos_class, Some(qos_class), "{path}");
    let container = cgroup.container();
    assert_eq!(container.map(|it| it.id.as_str()), Some(ID), "{path}");
    assert_eq!(container.and_then(|it| it.runtime), runtime, "{path}");
}

#[test]
fn pods_are_recognised_under_both_drivers() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    let containerd = Some(ContainerRuntime::Containerd);
    check_pod(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{escaped}.slice/cri-containerd-{id}.scope",
        Burstable,
        containerd,
    );
    check_pod(
        "/kubepods.slice/kubepods-pod{escaped}.slice/crio-{id}.scope",
        Guaranteed,
        Some(ContainerRuntime::CriO),
    );
    check_pod("/kubepods/besteffort/pod{uid}/{id}", BestEffort, None);
    check_pod("/kubepods/pod{uid}/{id}", Guaranteed, None);
    check_pod(
        "/kubepods/burstable/pod{uid}/crio-{id}",
        Burstable,
        Some(ContainerRuntime::CriO),
    );
    // kubelet and runtime are configured with different drivers.
    check_pod(
        "/system.slice/containerd.service/kubepods-besteffort-pod{escaped}.slice:cri-containerd:{id}",
        BestEffort,
        containerd,
    );
}

#[test]
fn a_static_pod_has_a_hash() {
    let cgroup = unified("/kubepods/burstable/pod3959d7abfbd0221e5043fccbcb8040e9/{id}");
    assert_eq!(cgroup.pod.unwrap().uid, "3959d7abfbd0221e5043fccbcb8040e9");
    for path in [
        "/podman.slice",
        "/pod",
        "/poder/pod-of-whales",
        "/user-pod{escaped}.slice",
    ] {
        assert_eq!(unified(path).pod, None, "{path}");
    }
}

#[test]
fn the_outermost_container_counts_and_the_others_are_kept() {
    let kind = unified(
        "/system.slice/docker-{other}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{escaped}.slice/cri-containerd-{id}.scope",
    );
    let ids: Vec<&str> = kind.containers.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, [OTHER, ID]);
    let container = kind.container().unwrap();
    assert_eq!(container.id, OTHER);
    assert_eq!(container.runtime, Some(ContainerRuntime::Docker));
    assert_eq!(kind.pod, None);

    // A node of kind runs systemd: a process outside all pods has a unit.
    let kubelet = unified("/system.slice/docker-{id}.scope/system.slice/kubelet.service");
    assert_eq!(kubelet.container().unwrap().id, ID);
    assert_eq!(kubelet.unit.as_deref(), Some("kubelet.service"));

    let in_pod = unified("/kubepods/burstable/pod{uid}/{other}/docker/{id}");
    assert_eq!(in_pod.container().unwrap().id, OTHER);
    assert_eq!(in_pod.pod.unwrap().uid, UID);
}

#[test]
fn names_below_a_container_or_a_user_are_claims() {
    const VICTIM: &str = "kubepods.slice/kubepods-pod{escaped}.slice/cri-containerd-{id}.scope";
    let in_container = unified(&format!("/system.slice/docker-{{other}}.scope/{VICTIM}"));
    assert_eq!(in_container.container().unwrap().id, OTHER);
    assert_eq!(in_container.pod, None);
    assert!(!in_container.is_of_user);

    let other_pod = "3959d7abfbd0221e5043fccbcb8040e9";
    let in_pod = unified(&format!("/kubepods/pod{other_pod}/{{other}}/{VICTIM}"));
    assert_eq!(in_pod.container().unwrap().id, OTHER);
    assert_eq!(in_pod.pod.unwrap().uid, other_pod);

    let user = "/user.slice/user-1000.slice/user@1000.service";
    let of_user = unified(&format!("{user}/app.slice/{VICTIM}"));
    assert!(of_user.is_of_user);
    assert_eq!(of_user.pod, None);
    // A user manager inside a container is none of the host.
    let inside = unified("/docker/{id}/user.slice/user@0.service/app.slice/web.service");
    assert!(!inside.is_of_user);
    assert_eq!(inside.unit_user, Some(0));
}

#[track_caller]
fn check_unit(path: &str, unit: Option<&str>, slice: Option<&str>, user: Option<u32>) {
    let cgroup = unified(path);
    assert_eq!(cgroup.unit.as_deref(), unit, "{path}");
    assert_eq!(cgroup.slice.as_deref(), slice, "{path}");
    assert_eq!(cgroup.unit_user, user, "{path}");
    assert_eq!(cgroup.container(), None, "{path}");
}

#[test]
fn units_are_those_of_the_system_or_of_a_user() {
    let system = Some("system.slice");
    check_unit(
        "/system.slice/nginx.service",
        Some("nginx.service"),
        system,
        None,
    );
    check_unit(
        "/system.slice/a.service/worker",
        Some("a.service"),
        system,
        None,
    );
    check_unit(
        "/system.slice/system-getty.slice/getty@tty1.service",
        Some("getty@tty1.service"),
        Some("system-getty.slice"),
        None,
    );
    check_unit(
        "/user.slice/user-1000.slice/session-3.scope",
        Some("session-3.scope"),
        Some("user-1000.slice"),
        None,
    );
    check_unit(
        "/user.slice/user-1000.slice/user@1000.service/app.slice/web.service",
        Some("web.service"),
        Some("app.slice"),
        Some(1000),
    );
    check_unit("/init.scope", Some("init.scope"), None, None);
    check_unit("/", None, None, None);
}

#[test]
fn a_private_namespace_leaves_the_rest_of_the_path() {
    let cgroup = unified("/../../kubepods-besteffort-pod{escaped}.slice/cri-containerd-{id}.scope");
    assert_eq!(cgroup.pod.as_ref().unwrap().uid, UID);
    assert_eq!(cgroup.container().unwrap().id, ID);
    let cgroup = unified("/../cri-containerd-{id}.scope");
    assert_eq!(cgroup.container().unwrap().id, ID);
    assert_eq!(cgroup.pod, None);
}

#[test]
fn of_many_hierarchies_the_most_specific_path_counts() {
    let text = format!(
        "12:cpu,cpuacct:/docker/{ID}\n1:name=systemd:/system.slice/docker.service\n0::/init.scope\n"
    );
    let cgroup = Cgroup::parse(text.as_bytes());
    assert_eq!(cgroup.container().unwrap().id, ID);
    assert_eq!(cgroup.path, format!("/docker/{ID}"));
    for ancestor in ["/docker", "/docker/", "/", "/system.slice", "/init.scope"] {
        assert!(cgroup.is_within(ancestor), "{ancestor}");
    }
    assert!(!cgroup.is_within("/dock"));

    let text = "4:memory:/\n1:name=systemd:/system.slice/a.service\n0::/system.slice/b.service\n";
    let cgroup = Cgroup::parse(text.as_bytes());
    assert_eq!(cgroup.unit.as_deref(), Some("b.service"));
}

#[test]
fn a_malformed_line_is_skipped() {
    let text = b"x\n1:\n:a:/b\n1:a\n0::relative\n\xff::/\n0::/a:b.service (deleted)";
    let cgroup = Cgroup::parse(text);
    assert_eq!(cgroup.path, "/a:b.service");
    assert_eq!(cgroup.unit.as_deref(), Some("a:b.service"));
    assert_eq!(Cgroup::parse(b""), Cgroup::default());
}

#[test]
fn own_groups_are_read() {
    let text = std::fs::read("/proc/self/cgroup").unwrap();
    let cgroup = Cgroup::parse(&text);
    assert!(cgroup.path.starts_with('/'));
    assert!(cgroup.is_within("/"));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<Vec<u8>>()) {
        let _ = Cgroup::parse(&text);
    }

    #[test]
    fn no_path_makes_it_panic(
        path in r"(/(\.\.|pod|lxc|docker-|machine.slice|machine-|systemd-nspawn@|kubepods-pod|[:.é\\x-]|[0-9a-f_]{36}|[0-9a-f]{64}|\.scope|\.service|\.slice){0,5}){0,6}",
    ) {
        let cgroup = unified(&path);
        assert!(cgroup.containers.len() <= super::membership::MAX_DEPTH);
    }
}
