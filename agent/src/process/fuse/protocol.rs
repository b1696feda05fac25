//! What the agent and its file helper send each other: one datagram with a descriptor for each
//! request, and one for each reply.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::Stat,
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most bytes that are read by one request.
pub(super) const MAX_READ: usize = 64 << 10;

/// Most bytes of a path.
pub(super) const MAX_PATH: usize = 4096;

/// Looks a path up in the root directory that is the descriptor; the reply has a descriptor.
pub(super) const FIND: u32 = 1;

/// Opens the file of the descriptor; the reply has its [`FileStatus`].
pub(super) const STATUS: u32 = 2;

/// Reads the file of the descriptor; the reply has its bytes.
pub(super) const READ: u32 = 3;

/// Reads the memory of a process, whose open file `mem` is the descriptor.
pub(super) const MEMORY: u32 = 4;

/// A request; a path follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub(super) struct Request {
    pub(super) operation: u32,
    /// Bytes to read.
    pub(super) bytes: u32,
    /// Number of the file, which is not reused.
    pub(super) file: u64,
    pub(super) offset: u64,
}

/// A reply; what was read follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub(super) struct Reply {
    /// 0 if it has succeeded.
    pub(super) errno: i32,
}

/// The status of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub(in crate::process) struct FileStatus {
    pub(in crate::process) device: u64,
    pub(in crate::process) inode: u64,
    pub(in crate::process) bytes: u64,
    /// Time of the last modification, in seconds and nanoseconds.
    pub(in crate::process) modified: [i64; 2],
    /// Time of the last change of its inode, which programs cannot set.
    pub(in crate::process) changed: [i64; 2],
    pub(in crate::process) owner: u64,
}

/// Sends a message with a descriptor.
pub(super) fn send(
    socket: &impl AsFd,
    head: &[u8],
    body: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let parts = [IoSlice::new(head), IoSlice::new(body)];
    sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message into `head` and `body`; returns the bytes of the body, and the descriptor. The
/// end of the connection is an error.
pub(super) fn receive<H: FromBytes + IntoBytes>(
    socket: &impl AsFd,
    body: &mut [u8],
) -> io::Result<(H, usize, Option<OwnedFd>)> {
    let mut head = H::new_zeroed();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(head.as_mut_bytes()), IoSliceMut::new(body)];
    let message = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let is_complete = !message.flags.contains(ReturnFlags::TRUNC);
    match message.bytes.checked_sub(size_of::<H>()) {
        Some(bytes) if is_complete => Ok((head, bytes, descriptor)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl From<&Stat> for FileStatus {
    fn from(status: &Stat) -> Self {
        Self {
            device: status.st_dev,
            inode: status.st_ino,
            bytes: status.st_size.max(0).cast_unsigned(),
            modified: [status.st_mtime, status.st_mtime_nsec.cast_signed()],
            changed: [status.st_ctime, status.st_ctime_nsec.cast_signed()],
            owner: status.st_uid.into(),
        }
    }
}

/// The number of an error, for a reply.
pub(super) fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
}
