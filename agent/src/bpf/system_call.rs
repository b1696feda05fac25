//! Commands of the system call `bpf` that aya has not, or not with all that they take.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd, RawFd},
};

/// `BPF_LINK_CREATE`.
pub(super) const LINK_CREATE: libc::c_int = 28;

/// The system call `bpf`, for commands that return a descriptor.
///
/// # Safety
///
/// `attributes` must be those of the command.
pub(super) unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw const *attributes,
            size_of::<T>(),
        )
    };
    match RawFd::try_from(descriptor) {
        // SAFETY: the kernel has just made it for this process.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}
