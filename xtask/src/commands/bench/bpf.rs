//! The calls of `bpf(2)` that read what the BPF programs of another process cost and count.
//!
//! Invariants: every call goes through [`call`]; the only change in the kernel is that it measures
//! run times, while [`Accounting`] lives: the kernel itself ends that when the process dies, however
//! it dies, unlike a sysctl that has to be restored.

use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use anyhow::{Context as _, Result};

/// `enum bpf_cmd`.
mod command {
    pub(super) const MAP_LOOKUP_ELEM: u32 = 1;
    pub(super) const PROG_GET_FD_BY_ID: u32 = 13;
    pub(super) const MAP_GET_FD_BY_ID: u32 = 14;
    pub(super) const OBJ_GET_INFO_BY_FD: u32 = 15;
    pub(super) const ENABLE_STATS: u32 = 32;
}

/// `BPF_STATS_RUN_TIME`.
const RUN_TIME: u32 = 0;

/// While it lives the kernel measures how long each run of a program takes.
#[derive(Debug)]
pub(super) struct Accounting {
    _enabled: OwnedFd,
}

impl Accounting {
    pub(super) fn enable() -> Result<Self> {
        let enabled = descriptor(command::ENABLE_STATS, &mut [RUN_TIME]).context(
            "the kernel does not measure the run times of BPF programs: run this as root",
        )?;
        Ok(Self { _enabled: enabled })
    }
}

/// A map of numbers, one per processor and key, of another process.
#[derive(Debug)]
pub(super) struct PerCpuNumbers {
    map: OwnedFd,
    /// One value of each possible processor.
    values: Vec<u64>,
}

impl PerCpuNumbers {
    /// The map of this name among those with the given ids.
    pub(super) fn find(ids: &[u32], name: &str) -> Result<Self> {
        for &id in ids {
            let map = map(id)?;
            if object_name(&map, NAME_OF_MAP)? == name {
                return Ok(Self {
                    map,
                    values: vec![0; possible_cpus()?],
                });
            }
        }
        anyhow::bail!("the BPF programs have no map `{name}`");
    }

    /// The sum over the processors.
    pub(super) fn sum(&mut self, key: u32) -> Result<u64> {
        /// The part of `union bpf_attr` that a look-up uses.
        #[repr(C)]
        struct Lookup {
            map: RawFd,
            padding: u32,
            key: *const u32,
            value: *mut u64,
            flags: u64,
        }
        let mut lookup = Lookup {
            map: self.map.as_raw_fd(),
            padding: 0,
            key: &raw const key,
            value: self.values.as_mut_ptr(),
            flags: 0,
        };
        // SAFETY: `key` has the four bytes of an array's key; `values` has eight for each possible
        // processor, which is what the kernel writes for a per-processor map of eight-byte values.
        unsafe { call(command::MAP_LOOKUP_ELEM, &mut lookup) }
            .context("the counters of the BPF programs cannot be read")?;
        Ok(self.values.iter().sum())
    }
}

/// The name of a map, of which the kernel keeps 15 bytes.
pub(super) fn map_name(id: u32) -> Result<String> {
    let map = map(id)?;
    object_name(&map, NAME_OF_MAP)
}

/// The name of a program, of which the kernel keeps 15 bytes.
pub(super) fn program_name(id: u32) -> Result<String> {
    let program = descriptor(command::PROG_GET_FD_BY_ID, &mut [id, 0, 0])
        .with_context(|| format!("program {id} cannot be opened"))?;
    object_name(&program, NAME_OF_PROGRAM)
}

fn map(id: u32) -> Result<OwnedFd> {
    descriptor(command::MAP_GET_FD_BY_ID, &mut [id, 0, 0])
        .with_context(|| format!("map {id} cannot be opened"))
}

/// Where the name is in `struct bpf_map_info`.
const NAME_OF_MAP: usize = 24;

/// Where the name is in `struct bpf_prog_info`.
const NAME_OF_PROGRAM: usize = 64;

/// Bytes of a name.
const NAME_BYTES: usize = 16;

fn object_name(object: &OwnedFd, offset: usize) -> Result<String> {
    /// The beginning of either structure.
    #[repr(C, align(8))]
    struct Info([u8; NAME_OF_PROGRAM + NAME_BYTES]);
    /// The part of `union bpf_attr` that requests it.
    #[repr(C)]
    struct Request {
        object: RawFd,
        bytes: u32,
        info: *mut Info,
    }
    let mut info = Info([0; NAME_OF_PROGRAM + NAME_BYTES]);
    let mut request = Request {
        object: object.as_raw_fd(),
        bytes: u32::try_from(size_of::<Info>())?,
        info: &raw mut info,
    };
    // SAFETY: the kernel writes at most `bytes` bytes to `info`, which has as many; the lengths in it
    // are zero, so that it writes to no other place.
    unsafe { call(command::OBJ_GET_INFO_BY_FD, &mut request) }
        .context("the name of a BPF object cannot be read")?;
    let name = &info.0[offset..offset + NAME_BYTES];
    let name = name.split(|&byte| byte == 0).next().unwrap_or(&[]);
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// A command that takes numbers only and gives a file descriptor.
fn descriptor<const N: usize>(command: u32, numbers: &mut [u32; N]) -> io::Result<OwnedFd> {
    // SAFETY: there is no pointer in it.
    let descriptor = unsafe { call(command, numbers) }?;
    // SAFETY: the kernel has just made the descriptor and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The system call.
///
/// # Safety
///
/// What `attributes` points to must be valid for what the kernel reads and writes for `command`.
unsafe fn call<T>(command: u32, attributes: &mut T) -> io::Result<RawFd> {
    // SAFETY: the kernel reads and writes `size_of::<T>()` bytes of the attributes, and the
    // caller guarantees what their pointers point to.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    RawFd::try_from(result).map_err(io::Error::other)
}

/// How many processors there can be, which is how many values the kernel copies.
fn possible_cpus() -> Result<usize> {
    let path = "/sys/devices/system/cpu/possible";
    let list = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    last_cpu(&list)
        .map(|last| last + 1)
        .with_context(|| format!("{path} is `{}`", list.trim()))
}

/// The last processor of a list like `0-3,8-11`.
fn last_cpu(list: &str) -> Option<usize> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_processor_ends_the_list() {
        assert_eq!(last_cpu("0\n"), Some(0));
        assert_eq!(last_cpu("0-3,8-11\n"), Some(11));
        assert_eq!(last_cpu(""), None);
    }
}
