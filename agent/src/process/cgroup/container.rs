//! Containers and pods, as recognised by names of control groups.

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its ID; for LXC and systemd-nspawn its name.
    pub id: String,
    /// Its runtime, where the name implies it.
    pub runtime: Option<ContainerRuntime>,
}

/// A container runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRuntime {
    /// Docker.
    Docker,
    /// containerd without Docker.
    Containerd,
    /// CRI-O.
    CriO,
    /// Podman.
    Podman,
    /// LXC, also as used by LXD, Incus and Proxmox.
    Lxc,
    /// systemd-nspawn.
    Nspawn,
}

/// A pod of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodReference {
    /// Its UID; for static pods the hash of their configuration.
    pub uid: String,
    /// Its quality-of-service class, where the path implies it.
    pub qos_class: Option<QosClass>,
}

/// The quality-of-service class of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Limits equal requests.
    Guaranteed,
    /// Requests or limits are set, but not equal.
    Burstable,
    /// Neither requests nor limits are set.
    BestEffort,
}

impl ContainerRuntime {
    /// Its name in labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Podman => "podman",
            Self::Lxc => "lxc",
            Self::Nspawn => "systemd-nspawn",
        }
    }
}

impl QosClass {
    /// Its name in the API of Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}
