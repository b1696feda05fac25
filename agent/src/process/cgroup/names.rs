//! Recognises the name of one control group by the conventions of container runtimes and systemd.
//!
//! With the cgroup driver `systemd` a container is a scope, `RUNTIME-ID.scope`, and a pod a slice
//! whose UID has `_` for `-`. With the driver `cgroupfs` a container is a directory, `ID` or
//! `RUNTIME-ID`, and a pod `podUID`. Where kubelet and containerd are configured with different
//! drivers, containerd creates `SLICE:RUNTIME:ID`.

use super::container::{Container, ContainerRuntime, PodReference, QosClass};

/// Hexadecimal digits of a container ID.
const ID_DIGITS: usize = 64;

/// Hexadecimal digits of a task ID of Amazon ECS; a container on Fargate is `TASK-NUMBER`.
const TASK_DIGITS: usize = 32;

/// What a control group is, by its name.
#[derive(Debug)]
pub(super) enum GroupName {
    Container(Container),
    Pod(PodReference),
    PodAndContainer(PodReference, Container),
    Unit,
    Slice,
    Other,
}

impl GroupName {
    /// Recognises `name`, a component of a path: `before` are the components before it, `next` is
    /// the one after it.
    pub(super) fn of(name: &str, before: &[&str], next: Option<&str>) -> Self {
        let parent = before.last().copied();
        if let Some((pod, container)) = unseparated(name) {
            return match pod {
                Some(pod) => Self::PodAndContainer(pod, container),
                None => Self::Container(container),
            };
        }
        if let Some(pod) = pod(name, parent) {
            return Self::Pod(pod);
        }
        let scope = name.strip_suffix(".scope");
        let found = of_oci(scope.unwrap_or(name), before)
            .or_else(|| lxc(name, parent))
            .or_else(|| machine(name, parent, next));
        if let Some(container) = found {
            return Self::Container(container);
        }
        if scope.or(name.strip_suffix(".service")).is_some() {
            Self::Unit
        } else if name.strip_suffix(".slice").is_some() {
            Self::Slice
        } else {
            Self::Other
        }
    }
}

/// The user ID in the unit of a user manager, `user@1000.service`.
pub(super) fn manager_of_user(unit: &str) -> Option<u32> {
    let user = unit.strip_prefix("user@")?.strip_suffix(".service")?;
    user.parse().ok()
}

/// Parses `SLICE:RUNTIME:ID`.
fn unseparated(name: &str) -> Option<(Option<PodReference>, Container)> {
    let (rest, id) = name.rsplit_once(':')?;
    let (slice, prefix) = rest.rsplit_once(':')?;
    let container = Container {
        id: is_id(id).then(|| id.to_owned())?,
        runtime: runtime_of_prefix(prefix),
    };
    Some((pod(slice, None), container))
}

/// Parses `podUID` and `kubepods-burstable-podUID.slice`, also with a prefix before `kubepods`.
fn pod(name: &str, parent: Option<&str>) -> Option<PodReference> {
    let (uid, qos_class) = match name.strip_suffix(".slice") {
        Some(slice) => {
            let (place, uid) = slice.rsplit_once("-pod")?;
            let last = place.rsplit('-').next();
            (uid.replace('_', "-"), Some(qos_class(last?)?))
        }
        None => (
            name.strip_prefix("pod")?.to_owned(),
            parent.and_then(qos_class),
        ),
    };
    // Static pods have a hash in hexadecimal digits instead of a UUID.
    let is_uid =
        (32..=36).contains(&uid.len()) && uid.bytes().all(|byte| byte == b'-' || is_digit(byte));
    is_uid.then_some(PodReference { uid, qos_class })
}

/// The quality-of-service class by the name of the parent of a pod.
fn qos_class(place: &str) -> Option<QosClass> {
    match place {
        "kubepods" => Some(QosClass::Guaranteed),
        "burstable" => Some(QosClass::Burstable),
        "besteffort" => Some(QosClass::BestEffort),
        _ => None,
    }
}

/// Parses the names of containers of OCI runtimes.
fn of_oci(name: &str, before: &[&str]) -> Option<Container> {
    let parent = before.last().copied();
    let container = |id: &str, runtime| Container {
        id: id.to_owned(),
        runtime,
    };
    if is_id(name) {
        // Pods of Podman have such names too, with `libpod-ID` below.
        let is_pod = parent == Some("libpod_parent");
        return (!is_pod).then(|| container(name, parent.and_then(runtime_of_parent)));
    }
    let (prefix, id) = name.rsplit_once('-')?;
    if is_id(id) {
        // The monitor of a container (conmon) is outside it.
        let is_monitor = prefix.ends_with("conmon");
        return (!is_monitor).then(|| container(id, runtime_of_prefix(prefix)));
    }
    let is_fargate = before.contains(&"ecs")
        && prefix.len() == TASK_DIGITS
        && prefix.bytes().all(is_digit)
        && !id.is_empty()
        && id.bytes().all(|byte| byte.is_ascii_digit());
    is_fargate.then(|| container(name, None))
}

/// Parses `lxc.payload.NAME` and `lxc/NAME`; the monitor, `lxc.monitor.NAME`, is outside.
fn lxc(name: &str, parent: Option<&str>) -> Option<Container> {
    let id = match (parent, name.strip_prefix("lxc.payload.")) {
        (_, Some(id)) => id,
        (Some("lxc" | "lxc.payload"), None) => name,
        _ => return None,
    };
    Some(Container {
        id: id.to_owned(),
        runtime: Some(ContainerRuntime::Lxc),
    })
}

/// Parses `machine-NAME.scope` and `systemd-nspawn@NAME.service`.
fn machine(name: &str, parent: Option<&str>, next: Option<&str>) -> Option<Container> {
    // The process systemd-nspawn itself is outside the container.
    if parent != Some("machine.slice") || next == Some("supervisor") {
        return None;
    }
    let service = name
        .strip_prefix("systemd-nspawn@")
        .and_then(|rest| rest.strip_suffix(".service"));
    let scope = name
        .strip_prefix("machine-")
        .and_then(|rest| rest.strip_suffix(".scope"));
    let id = unescape(service.or(scope)?);
    // Machines of libvirt, which are mostly virtual machines.
    let is_libvirt = scope.is_some() && (id.starts_with("qemu-") || id.starts_with("lxc-"));
    (!is_libvirt).then_some(Container {
        id,
        runtime: Some(ContainerRuntime::Nspawn),
    })
}

fn runtime_of_prefix(prefix: &str) -> Option<ContainerRuntime> {
    match prefix {
        "docker" => Some(ContainerRuntime::Docker),
        "cri-containerd" | "nerdctl" => Some(ContainerRuntime::Containerd),
        "crio" => Some(ContainerRuntime::CriO),
        "libpod" | "libpod-payload" => Some(ContainerRuntime::Podman),
        _ => None,
    }
}

/// The runtime of the containers directly below this group.
fn runtime_of_parent(parent: &str) -> Option<ContainerRuntime> {
    match parent {
        "docker" => Some(ContainerRuntime::Docker),
        // The default namespaces of containerd and of its CRI plugin.
        "default" | "k8s.io" => Some(ContainerRuntime::Containerd),
        _ => None,
    }
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(is_digit)
}

/// Whether it is a lowercase hexadecimal digit.
fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Decodes `\xHH`, systemd's escape sequences in names of units.
fn unescape(name: &str) -> String {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("\\x") {
        let (before, escaped) = rest.split_at(at);
        plain.extend_from_slice(before.as_bytes());
        let digits = escaped.get(2..4).unwrap_or_default();
        if let Ok(byte) = u8::from_str_radix(digits, 16) {
            plain.push(byte);
            rest = &escaped[4..];
        } else {
            plain.extend_from_slice(b"\\x");
            rest = &escaped[2..];
        }
    }
    plain.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&plain).into_owned()
}
