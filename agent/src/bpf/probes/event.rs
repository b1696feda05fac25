//! A perf event of the kernel's `uprobe` PMU: a BPF program at a place in a file.
//!
//! Not by aya, whose programs belong to the object that was loaded, and so to its thread.

use std::{
    ffi::CString,
    fs, io,
    os::{
        fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use perf_event_open_sys::{bindings::perf_event_attr, ioctls, perf_event_open};

/// The number of the PMU.
const PMU: &str = "/sys/bus/event_source/devices/uprobe/type";

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// A place where the program runs, until this is dropped: that waits as attaching it does.
#[derive(Debug)]
pub struct UprobeEvent(#[expect(dead_code, reason = "it is closed when dropped")] OwnedFd);

impl UprobeEvent {
    /// Has a program run each time that code reaches `offset` bytes into a file, in one process or all.
    pub(super) fn attach(
        program: BorrowedFd<'_>,
        file: &Path,
        offset: u64,
        process: Option<u32>,
    ) -> io::Result<Self> {
        let pmu = fs::read_to_string(PMU)?;
        let path = CString::new(file.as_os_str().as_bytes())?;
        let mut attributes = perf_event_attr {
            type_: pmu.trim().parse().map_err(io::Error::other)?,
            size: size_of::<perf_event_attr>()
                .try_into()
                .map_err(io::Error::other)?,
            ..perf_event_attr::default()
        };
        attributes.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
        attributes.__bindgen_anon_4.probe_offset = offset;
        // All processes are those of one processor: the kernel runs the program on each.
        let (process, processor) = match process {
            Some(process) => (process.try_into().map_err(io::Error::other)?, -1),
            None => (-1, 0),
        };
        // SAFETY: the attributes, and the path that they point to, live longer than the call.
        let event =
            unsafe { perf_event_open(&raw mut attributes, process, processor, -1, CLOSE_ON_EXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened just now.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let program = program.as_raw_fd().try_into().map_err(io::Error::other)?;
        // SAFETY: both are open, and the calls touch no memory.
        let is_set = unsafe {
            ioctls::SET_BPF(event.as_raw_fd(), program) == 0
                && ioctls::ENABLE(event.as_raw_fd(), 0) == 0
        };
        if is_set {
            Ok(Self(event))
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
