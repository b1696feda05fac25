//! What may be wrong with the BTF of a kernel.

use std::io;

/// The kernel's BTF.
pub(in crate::bpf) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Why the offsets cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no BTF, or it cannot be read.
    #[error(
        "{VMLINUX} cannot be read ({0}): agent needs a kernel built with CONFIG_DEBUG_INFO_BTF, \
         as all larger distributions build theirs since 2021"
    )]
    Unreadable(#[source] io::Error),
    /// The bytes are not in the documented format.
    #[error(
        "{VMLINUX} is malformed or of an unsupported BTF version: please report the kernel's version"
    )]
    Malformed,
    /// The kernel has no such structure or field.
    #[error("the kernel's BTF has no {structure}.{field}: please report the kernel's version")]
    Missing {
        /// Name of the structure.
        structure: &'static str,
        /// Name of the field.
        field: &'static str,
    },
}
