//! Files on FUSE file systems.
//!
//! The server of a FUSE file system is a program like any other, and whoever waits for its answer
//! cannot be killed, nor can the process that the thread belongs to be ended. What may have to wait
//! for such a server is therefore done by another process, a *file helper*, which is given up when
//! there is no answer. (In Linux: `request_wait_answer` in `fs/fuse/dev.c`.)
//!
//! Requests to a server are sent by opening, reading and `fstat` of its files, by looking a name up
//! in its directories, and by page faults of mappings of its files. A file that is open with `O_PATH`
//! sends none, nor does `statx` with `AT_STATX_DONT_SYNC`.
//!
//! Invariants: no thread of the agent sends such a request, and none holds a descriptor whose
//! `close` does; where it is not known which file system a file is on, it counts as FUSE; without
//! files on FUSE there is no helper.

mod client;
mod file;
mod helper;
mod mountinfo;
mod mounts;
mod protocol;
mod walk;

pub use helper::{SUBCOMMAND, run};
#[cfg(feature = "fuzzing")]
pub use mountinfo::parse as parse_mounts;

pub(super) use client::read_memory;
pub(super) use file::FuseFile;
pub(super) use mounts::{FileSystem, Status};
pub(super) use protocol::FileStatus;
pub(super) use walk::find;
