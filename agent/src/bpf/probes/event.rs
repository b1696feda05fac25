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

use perf_event_open_sys::{
    bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr},
    ioctls, perf_event_open,
};

use crate::{
    binaries::probe_points::ProbePoint,
    bpf::system_call::{LINK_CREATE, bpf},
};

/// The number of the PMU.
const PMU: &str = "/sys/bus/event_source/devices/uprobe/type";

/// `BPF_PERF_EVENT`.
const ATTACH_TO_PERF_EVENT: u32 = 41;

/// The part of `union bpf_attr` for [`LINK_CREATE`] with which a program is attached to a perf event, from Linux 5.15 on.
#[repr(C)]
struct LinkAttributes {
    program: u32,
    event: u32,
    attach_type: u32,
    flags: u32,
    /// What `bpf_get_attach_cookie` returns.
    cookie: u64,
}

/// A place where the program runs, until this is dropped: that waits as attaching it does.
#[derive(Debug)]
pub struct UprobeEvent {
    #[expect(dead_code, reason = "it is closed when dropped")]
    event: OwnedFd,
    #[expect(dead_code, reason = "it is closed when dropped")]
    link: Option<OwnedFd>,
}

impl UprobeEvent {
    /// Has a program run each time that code reaches a point of a file, in one process or all. It is told where the
    /// arguments of a USDT probe are, and the program that has the probe that somebody looks at it.
    pub(super) fn attach(
        program: BorrowedFd<'_>,
        file: &Path,
        point: ProbePoint,
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
        attributes.__bindgen_anon_4.probe_offset = point.offset;
        if let Some(semaphore) = point.announced.and_then(|it| it.semaphore) {
            // `ref_ctr_offset` of the PMU.
            attributes.config = u64::from(semaphore) << 32;
        }
        // All processes are those of one processor: the kernel runs the program on each.
        let (process, processor) = match process {
            Some(process) => (process.try_into().map_err(io::Error::other)?, -1),
            None => (-1, 0),
        };
        let flags = PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the attributes, and the path that they point to, live longer than the call.
        let event = unsafe { perf_event_open(&raw mut attributes, process, processor, -1, flags) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened just now.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let link = if let Some(announced) = point.announced {
            Some(link(program, &event, announced.arguments)?)
        } else {
            let program = program.as_raw_fd().try_into().map_err(io::Error::other)?;
            // SAFETY: both are open, and the call touches no memory.
            if unsafe { ioctls::SET_BPF(event.as_raw_fd(), program) } != 0 {
                return Err(io::Error::last_os_error());
            }
            None
        };
        // SAFETY: it is open, and the call touches no memory.
        if unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { event, link })
    }
}

/// Attaches a program to an event, with a number that it can ask for.
fn link(program: BorrowedFd<'_>, event: &OwnedFd, cookie: u64) -> io::Result<OwnedFd> {
    let attributes = LinkAttributes {
        program: program.as_raw_fd().cast_unsigned(),
        event: event.as_raw_fd().cast_unsigned(),
        attach_type: ATTACH_TO_PERF_EVENT,
        flags: 0,
        cookie,
    };
    // SAFETY: the attributes are those of the call, without pointers.
    unsafe { bpf(LINK_CREATE, &attributes) }
}
