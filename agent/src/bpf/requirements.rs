//! Requirements on the system, checked before anything is loaded, so that errors say what to do.

use std::{fs, io, path::Path};

use rustix::system::uname;

use super::btf;

/// The oldest supported kernel.
const OLDEST_KERNEL: (u32, u32) = (5, 10);

/// The inode of the initial PID namespace (`PROC_PID_INIT_INO` of the kernel).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The inode of the initial user namespace (`PROC_USER_INIT_INO` of the kernel): capabilities in another one permit nothing
/// of BPF, as those of root in a container without root.
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

/// What is missing in another user namespace, whatever the capabilities are there.
const OF_HOST: &str = "CAP_BPF, CAP_PERFMON in the user namespace of the host";

/// Required capabilities, by number and name.
const CAPABILITIES: [(u32, &str); 3] =
    [(39, "CAP_BPF"), (38, "CAP_PERFMON"), (19, "CAP_SYS_PTRACE")];

/// `CAP_SYS_ADMIN`, which implies the first two.
const SYS_ADMIN: u32 = 21;

/// Why a requirement is not met.
#[derive(Debug, thiserror::Error)]
pub enum Unmet {
    /// The kernel is too old.
    #[error("this is Linux {0}: agent needs Linux 5.10 or later")]
    Kernel(String),
    /// The kernel has no BTF.
    #[error(transparent)]
    Btf(btf::Error),
    /// Capabilities are missing.
    #[error(
        "permission to profile is missing ({0}): run agent as root (sudo), or give it these capabilities"
    )]
    Capabilities(String),
    /// The agent is not in the initial PID namespace.
    #[error(
        "agent runs in a PID namespace of its own and cannot resolve the host's process ids: run \
         it on the host, or with `--pid=host` (Docker, podman) or `hostPID: true` (Kubernetes)"
    )]
    PidNamespace,
}

/// A requirement, and whether it is met.
#[derive(Debug)]
pub struct Requirement {
    /// What is required.
    pub name: &'static str,
    /// Why it is not met.
    pub met: Result<(), Unmet>,
}

/// Checks all requirements, and returns each with its result.
#[must_use]
pub fn requirements() -> Vec<Requirement> {
    [
        ("Linux 5.10 or later", check_kernel as fn() -> _),
        ("permission to profile", check_capabilities),
        ("types of the kernel (BTF)", check_btf),
        ("process ids of the host", check_namespace),
    ]
    .map(|(name, check)| Requirement { name, met: check() })
    .into()
}

/// Checks all requirements.
///
/// # Errors
///
/// The first requirement that is not met.
pub fn check() -> Result<(), Unmet> {
    requirements().into_iter().try_for_each(|one| one.met)
}

/// Major and minor version of the running kernel, if it says so.
pub(super) fn running_kernel() -> Option<(u32, u32)> {
    kernel_version(&uname().release().to_string_lossy())
}

fn check_kernel() -> Result<(), Unmet> {
    let release = uname().release().to_string_lossy().into_owned();
    match kernel_version(&release) {
        Some(version) if version < OLDEST_KERNEL => Err(Unmet::Kernel(release)),
        _ => Ok(()),
    }
}

fn check_capabilities() -> Result<(), Unmet> {
    let namespace = fs::read_link("/proc/self/ns/user").ok();
    if namespace.is_some_and(|it| it.as_os_str() != INITIAL_USER_NAMESPACE) {
        return Err(Unmet::Capabilities(OF_HOST.to_owned()));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match missing_capabilities(&status).as_slice() {
        [] => Ok(()),
        missing => Err(Unmet::Capabilities(missing.join(", "))),
    }
}

fn check_btf() -> Result<(), Unmet> {
    if Path::new(btf::VMLINUX).exists() {
        return Ok(());
    }
    let absent = io::Error::from(io::ErrorKind::NotFound);
    Err(Unmet::Btf(btf::Error::Unreadable(absent)))
}

fn check_namespace() -> Result<(), Unmet> {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace.as_os_str() == INITIAL_PID_NAMESPACE {
        Ok(())
    } else {
        Err(Unmet::PidNamespace)
    }
}

/// Major and minor version of a kernel's release name.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Names of the required capabilities that a process with this `/proc/PID/status` lacks.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0);
    let has = |number: u32| effective >> number & 1 == 1;
    CAPABILITIES
        .into_iter()
        .filter(|(number, _)| {
            let by_admin = matches!(number, 38 | 39) && has(SYS_ADMIN);
            !has(*number) && !by_admin
        })
        .map(|(_, name)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{kernel_version, missing_capabilities};

    #[test]
    fn kernel_versions_are_compared_as_numbers() {
        assert_eq!(kernel_version("5.10.0-45-cloud-amd64"), Some((5, 10)));
        assert_eq!(kernel_version("6.9-rc1"), Some((6, 9)));
        assert!(kernel_version("5.9.16") < Some(super::OLDEST_KERNEL));
        assert_eq!(kernel_version("unknown"), None);
    }

    #[test]
    fn missing_capabilities_are_named() {
        assert!(missing_capabilities("CapEff:\t000001ffffffffff\n").is_empty());
        assert_eq!(
            missing_capabilities("CapEff:\t0000000000000000\n"),
            ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"]
        );
        let admin = format!("CapEff:\t{:016x}\n", 1_u64 << 21);
        assert_eq!(missing_capabilities(&admin), ["CAP_SYS_PTRACE"]);
        assert_eq!(missing_capabilities("").len(), 3);
    }
}
