//! A FUSE file system with a few files, which stops answering when a test says so.
//!
//! It speaks the protocol of `/dev/fuse` (`include/uapi/linux/fuse.h` of Linux) without a library: a
//! library answers every request.
//!
//! Invariants: it is gone when it is dropped, and whoever waits for it then gets an error; the files
//! are never read through the mount by the test itself.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::AsRawFd as _,
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, unmount},
};

/// Requests, by their numbers in the protocol.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// Bytes of the header of a request.
const HEADER: usize = 40;

/// Room for a request: the kernel requires 8 KiB at least.
const MAX_REQUEST: usize = 1 << 20;

/// The node of the root directory; files follow.
const ROOT: u64 = 1;

/// Time for which the kernel caches names and attributes.
const VALID_SECONDS: u64 = 3600;

/// A mounted file system.
pub struct FuseMount {
    folder: PathBuf,
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    has_stopped_answering: AtomicBool,
    is_over: AtomicBool,
    unanswered: AtomicU64,
}

impl FuseMount {
    /// Mounts a file system at `folder`, an existing directory, with copies of these files under
    /// these names.
    pub fn new(folder: &Path, files: &[(&str, &Path)]) -> Self {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/fuse")
            .unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
            device.as_raw_fd()
        );
        let options = std::ffi::CString::new(options).unwrap();
        mount("test", folder, "fuse.test", MountFlags::empty(), &*options).unwrap();
        let files = files
            .iter()
            .map(|(name, path)| ((*name).to_owned(), fs::read(path).unwrap()))
            .collect();
        let shared = Arc::<Shared>::default();
        let server = Server {
            device,
            files,
            shared: Arc::clone(&shared),
        };
        Self {
            folder: folder.to_owned(),
            shared,
            server: Some(thread::spawn(move || server.serve())),
        }
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Reads requests and answers none of them from now on.
    pub fn stop_answering(&self) {
        self.shared
            .has_stopped_answering
            .store(true, Ordering::SeqCst);
    }

    /// How many requests are not answered.
    pub fn unanswered(&self) -> u64 {
        self.shared.unanswered.load(Ordering::SeqCst)
    }

    /// Ends it: whoever waits for it gets an error.
    pub fn abort(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(server) = self.server.take() {
            let _ = server.join();
            let _ = unmount(&self.folder, UnmountFlags::DETACH);
        }
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        self.abort();
    }
}

struct Server {
    device: File,
    files: Vec<(String, Vec<u8>)>,
    shared: Arc<Shared>,
}

impl Server {
    /// Serves until it is over; the kernel aborts the connection when the device is closed.
    fn serve(mut self) {
        let mut request = vec![0; MAX_REQUEST];
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        while !self.shared.is_over.load(Ordering::SeqCst) {
            let _ = poll(
                &mut [PollFd::new(&self.device, PollFlags::IN)],
                Some(&limit),
            );
            let Ok(bytes) = self.device.read(&mut request) else {
                continue;
            };
            let operation = number(&request, 4, 4);
            let unique = &request[8..16].to_vec();
            if matches!(
                u32::try_from(operation).unwrap(),
                FORGET | BATCH_FORGET | INTERRUPT
            ) {
                continue;
            }
            if self.shared.has_stopped_answering.load(Ordering::SeqCst) {
                self.shared.unanswered.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            let (error, body) = match self.answer(&request[..bytes]) {
                Ok(body) => (0, body),
                Err(errno) => (-errno.raw_os_error(), Vec::new()),
            };
            let mut reply = Vec::new();
            reply.extend(u32::try_from(16 + body.len()).unwrap().to_le_bytes());
            reply.extend(error.to_le_bytes());
            reply.extend(unique);
            reply.extend(body);
            // An error means that whoever asked has been killed.
            let _ = self.device.write(&reply);
        }
    }

    fn answer(&self, request: &[u8]) -> Result<Vec<u8>, Errno> {
        let node = number(request, 16, 8);
        let body = &request[HEADER..];
        match u32::try_from(number(request, 4, 4)).unwrap() {
            INIT => {
                // Version 7.31, and no flag: reads are not asynchronous, and whoever reads waits for
                // them uninterruptibly.
                let mut reply = [0; 64];
                reply[0] = 7;
                reply[4] = 31;
                reply[20..24].copy_from_slice(&(128_u32 << 10).to_le_bytes());
                Ok(reply.to_vec())
            }
            LOOKUP => {
                let name = body.strip_suffix(b"\0").unwrap_or(body);
                let file = self
                    .files
                    .iter()
                    .position(|(known, _)| known.as_bytes() == name);
                let node = file.ok_or(Errno::NOENT)? as u64 + ROOT + 1;
                let mut reply = Vec::new();
                for field in [node, 0, VALID_SECONDS, VALID_SECONDS, 0] {
                    reply.extend(field.to_le_bytes());
                }
                reply.extend(self.attributes(node));
                Ok(reply)
            }
            GETATTR => {
                let mut reply = Vec::new();
                for field in [VALID_SECONDS, 0] {
                    reply.extend(field.to_le_bytes());
                }
                reply.extend(self.attributes(node));
                Ok(reply)
            }
            OPEN | OPENDIR => Ok(vec![0; 16]),
            READ => {
                let contents = self.contents(node);
                let start = usize::try_from(number(body, 8, 8)).unwrap();
                let bytes = usize::try_from(number(body, 16, 4)).unwrap();
                let rest = contents.get(start..).unwrap_or_default();
                Ok(rest[..bytes.min(rest.len())].to_vec())
            }
            STATFS => Ok(vec![0; 80]),
            READDIR | RELEASE | FLUSH | RELEASEDIR => Ok(Vec::new()),
            _ => Err(Errno::NOSYS),
        }
    }

    fn contents(&self, node: u64) -> &[u8] {
        let file = usize::try_from(node - ROOT).unwrap().checked_sub(1);
        file.map_or(&[], |file| &self.files[file].1)
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let bytes = self.contents(node).len() as u64;
        let mode: u32 = if node == ROOT { 0o4_0755 } else { 0o10_0755 };
        let mut attributes = Vec::new();
        for field in [node, bytes, bytes.div_ceil(512), 0, 0, 0] {
            attributes.extend(field.to_le_bytes());
        }
        for field in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
            attributes.extend(field.to_le_bytes());
        }
        attributes
    }
}

/// The number with this many bytes at this offset.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut number = [0; 8];
    number[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(number)
}
