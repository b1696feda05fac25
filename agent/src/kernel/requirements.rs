//! What agent needs of the system, checked before anything is loaded, so that the error can say
//! what to do.

use std::{fs, io, path::Path};

use rustix::system::uname;

use super::btf;

/// The oldest kernel that agent runs on.
const OLDEST_KERNEL: (u32, u32) = (5, 10);

/// The inode of the initial PID namespace (`PROC_PID_INIT_INO` of the kernel).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Capabilities that are needed, by number and name.
const CAPABILITIES: [(u32, &str); 3] =
    [(39, "CAP_BPF"), (38, "CAP_PERFMON"), (19, "CAP_SYS_PTRACE")];

/// `CAP_SYS_ADMIN` stands for the first two.
const SYS_ADMIN: u32 = 21;

/// Something that agent needs is not there.
#[derive(Debug, thiserror::Error)]
pub enum Unmet {
    /// The kernel is too old.
    #[error("this is Linux {0}: agent needs Linux 5.10 or later")]
    Kernel(String),
    /// The kernel shows no BTF.
    #[error(transparent)]
    Btf(btf::Error),
    /// Capabilities are missing.
    #[error(
        "permission to profile is missing ({0}): run agent as root (sudo), or give it these capabilities"
    )]
    Capabilities(String),
    /// The agent does not see the host's process ids.
    #[error(
        "agent runs in a PID namespace of its own and cannot tell which process is meant: run \
         it on the host, or with `--pid=host` (Docker, podman) or `hostPID: true` (Kubernetes)"
    )]
    PidNamespace,
}

/// Checks all that can be checked beforehand.
///
/// # Errors
///
/// The first thing that is missing.
pub fn check() -> Result<(), Unmet> {
    let release = uname().release().to_string_lossy().into_owned();
    if kernel_version(&release).is_some_and(|version| version < OLDEST_KERNEL) {
        return Err(Unmet::Kernel(release));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if !missing.is_empty() {
        return Err(Unmet::Capabilities(missing.join(", ")));
    }
    if !Path::new(btf::VMLINUX).exists() {
        let absent = io::Error::from(io::ErrorKind::NotFound);
        return Err(Unmet::Btf(btf::Error::Unreadable(absent)));
    }
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace.as_os_str() != INITIAL_PID_NAMESPACE {
        return Err(Unmet::PidNamespace);
    }
    Ok(())
}

/// Major and minor version of a kernel's release name.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Names of the needed capabilities that a process with this `/proc/PID/status` lacks.
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
