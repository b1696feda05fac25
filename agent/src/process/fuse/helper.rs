//! A file helper: the agent's program, started again for the files of one file system.
//!
//! Invariants: it does one request after the other, and ends when the agent has; it opens regular
//! files only, and only for reading; without requests it has no file open, which would keep file
//! systems from being unmounted.

use std::{
    ffi::{CStr, OsStr},
    fs::File,
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::FileExt as _},
    },
    path::Path,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{self, FileType, Mode},
    io::Errno,
    stdio::stdin,
    thread::set_name,
};
use zerocopy::IntoBytes as _;

use super::protocol::{
    FIND, FileStatus, MAX_PATH, MAX_READ, MEMORY, READ, Reply, Request, STATUS, number, receive,
    send,
};
use crate::process::reference::{READING, find_in_root};

/// The argument with which the agent starts the helper; its socket is standard input.
pub const SUBCOMMAND: &str = "file-helper";

/// Name of its process.
const NAME: &CStr = c"agent-files";

/// Most files that it keeps open.
const MAX_OPEN: usize = 32;

/// Time without requests after which all files are closed.
const IDLE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// Serves requests until the agent ends.
pub fn run() {
    let _ = set_name(NAME);
    close_inherited();
    ignore_signals();
    let mut open = OpenFiles::default();
    let mut path = [0; MAX_PATH];
    let mut contents = vec![0; MAX_READ];
    loop {
        let limit = (!open.0.is_empty()).then_some(&IDLE);
        if let Ok(0) = poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], limit) {
            open.0.clear();
            continue;
        }
        let Ok((request, bytes, Some(descriptor))) = receive(&stdin(), &mut path) else {
            return;
        };
        let answer = answer(
            &mut open,
            &request,
            &path[..bytes],
            descriptor,
            &mut contents,
        );
        let errno = answer.as_ref().err().map_or(0, number);
        let (body, descriptor) = match &answer {
            Ok(Answer::Found(file)) => (&[][..], Some(file.as_fd())),
            Ok(Answer::Status(status)) => (status.as_bytes(), None),
            Ok(Answer::Bytes(bytes)) => (contents.get(..*bytes).unwrap_or_default(), None),
            Err(_) => (&[][..], None),
        };
        if send(&stdin(), Reply { errno }.as_bytes(), body, descriptor).is_err() {
            return;
        }
    }
}

/// Closes what the agent has inherited itself; its own descriptors are closed by `exec`.
fn close_inherited() {
    // SAFETY: takes three integers, and nothing is open yet that this program uses, but the standard
    // streams.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}

/// A service manager sends signals to all processes of a service: the helper ends when the agent has
/// read what it needs.
fn ignore_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: ignoring a signal runs no code.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

enum Answer {
    Found(OwnedFd),
    Status(FileStatus),
    Bytes(usize),
}

fn answer(
    open: &mut OpenFiles,
    request: &Request,
    path: &[u8],
    descriptor: OwnedFd,
    contents: &mut [u8],
) -> io::Result<Answer> {
    let into = usize::try_from(request.bytes)
        .ok()
        .and_then(|bytes| contents.get_mut(..bytes))
        .ok_or(Errno::INVAL)?;
    match request.operation {
        FIND => {
            let path = Path::new(OsStr::from_bytes(path));
            Ok(Answer::Found(find_in_root(&descriptor, path)?))
        }
        STATUS => {
            let file = open.get(request.file, &descriptor)?;
            Ok(Answer::Status((&fs::fstat(file)?).into()))
        }
        READ => {
            let file = open.get(request.file, &descriptor)?;
            Ok(Answer::Bytes(file.read_at(into, request.offset)?))
        }
        MEMORY => {
            let memory = File::from(descriptor);
            Ok(Answer::Bytes(memory.read_at(into, request.offset)?))
        }
        _ => Err(Errno::INVAL.into()),
    }
}

/// Files that are open for reading, with their numbers, the last that was opened at the end.
#[derive(Default)]
struct OpenFiles(Vec<(u64, File)>);

impl OpenFiles {
    /// The file with this number, of which `reference` is an `O_PATH` descriptor.
    fn get(&mut self, number: u64, reference: &OwnedFd) -> io::Result<&File> {
        let known = self.0.iter().position(|(known, _)| *known == number);
        let at = if let Some(at) = known {
            at
        } else {
            let file = open(reference)?;
            if self.0.len() >= MAX_OPEN {
                self.0.remove(0);
            }
            self.0.push((number, file));
            self.0.len() - 1
        };
        Ok(&self.0[at].1)
    }
}

fn open(reference: &OwnedFd) -> io::Result<File> {
    let status = fs::fstat(reference)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS.into());
    }
    let own = format!("/proc/self/fd/{}", reference.as_raw_fd());
    Ok(fs::open(own, READING, Mode::empty())?.into())
}
