//! Containers and pods, as the names of control groups say.

/// A container, as the name of a control group says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its id; for LXC and systemd-nspawn its name.
    pub id: String,
    /// What runs it, where the name says it.
    pub runtime: Option<ContainerRuntime>,
}

/// What runs a container.
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
    /// LXC, also as LXD, Incus or Proxmox use it.
    Lxc,
    /// systemd-nspawn.
    Nspawn,
}

/// A pod of Kubernetes, as the name of a control group says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodReference {
    /// Its UID; for static pods the hash of their configuration.
    pub uid: String,
    /// How resources are shared out to it, where the path says it.
    pub qos_class: Option<QosClass>,
}

/// How Kubernetes shares out resources to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// It has what it asked for, and no more.
    Guaranteed,
    /// It has what it asked for, and more if there is any.
    Burstable,
    /// It has what is left.
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
    /// Kubernetes' name of it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}
