//! The agent's side of the file helpers: starts one for a file system when its first file is needed,
//! and gives it up when it does not answer.
//!
//! Invariants: a helper waits for one file system alone, so that none is held up by another, which
//! closing a file may do too; a request takes [`LIMIT`] at most once it has its turn; a helper that
//! was given up is killed and never waited for; a file system that did not answer is left alone for
//! some minutes, and when [`MAX_GIVEN_UP`] helpers have not ended, all of them are.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::{
    helper::SUBCOMMAND,
    mounts::FileSystem,
    protocol::{
        FIND, FileStatus, MAX_PATH, MAX_READ, MEMORY, READ, Reply, Request, STATUS, receive, send,
    },
};
use crate::workers::{Subject, charge, overrun};

/// Time for an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Most helpers, one for each file system, that are there at the same time.
const MAX_LIVE: usize = 8;

/// Time in which a helper that is not used ends.
const END_LIMIT: Duration = Duration::from_millis(100);

/// Most helpers that were given up and have not ended.
const MAX_GIVEN_UP: usize = 4;

/// How long a file system that did not answer is left alone.
const STAY: Duration = Duration::from_secs(10 * 60);

/// Most file systems that are left alone; the first makes room.
const MAX_SILENT: usize = 64;

/// Why no request is sent to a file system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("{0} does not answer")]
    Silent(String),
    #[error("too many file systems do not answer")]
    TooMany,
}

/// A file system that did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SilentFileSystem {
    device: u64,
    name: String,
    since: Instant,
}

/// Refers to the file at `path` in the root directory `root`, which leads through `file_system`.
pub(super) fn find(root: &OwnedFd, path: &Path, file_system: &FileSystem) -> io::Result<OwnedFd> {
    let path = path.as_os_str().as_bytes();
    if path.len() > MAX_PATH {
        return Err(Errno::NAMETOOLONG.into());
    }
    let request = Request {
        operation: FIND,
        ..Request::new_zeroed()
    };
    let (_, found) = HELPERS.request(file_system, &request, path, root, &mut [])?;
    found.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The status of the file with this number, of which `reference` is an `O_PATH` descriptor, after
/// opening it.
pub(super) fn status(
    reference: &OwnedFd,
    file: u64,
    file_system: &FileSystem,
) -> io::Result<FileStatus> {
    let request = Request {
        operation: STATUS,
        file,
        ..Request::new_zeroed()
    };
    let mut status = FileStatus::new_zeroed();
    let into = status.as_mut_bytes();
    let (bytes, _) = HELPERS.request(file_system, &request, &[], reference, into)?;
    if bytes != size_of::<FileStatus>() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(status)
}

/// Reads the file with this number, of which `reference` is an `O_PATH` descriptor.
pub(super) fn read(
    reference: &OwnedFd,
    file: u64,
    into: &mut [u8],
    offset: u64,
    file_system: &FileSystem,
) -> io::Result<usize> {
    read_of(READ, reference, file, into, offset, file_system)
}

/// Reads the memory of a process, at an address where a file of `file_system` is mapped.
pub(in crate::process) fn read_memory(
    memory: &impl AsFd,
    into: &mut [u8],
    address: u64,
    file_system: &FileSystem,
) -> io::Result<usize> {
    read_of(MEMORY, memory, 0, into, address, file_system)
}

fn read_of(
    operation: u32,
    descriptor: &impl AsFd,
    file: u64,
    into: &mut [u8],
    offset: u64,
    file_system: &FileSystem,
) -> io::Result<usize> {
    let bytes = into.len().min(MAX_READ);
    let request = Request {
        operation,
        bytes: u32::try_from(bytes).unwrap_or(0),
        file,
        offset,
    };
    let into = &mut into[..bytes];
    let (bytes, _) = HELPERS.request(file_system, &request, &[], descriptor, into)?;
    Ok(bytes)
}

static HELPERS: LazyLock<Helpers> = LazyLock::new(|| Helpers {
    start: || {
        let mut command = Command::new("/proc/self/exe");
        command.arg(SUBCOMMAND);
        command
    },
    limit: LIMIT,
    live: Mutex::default(),
    given_up: Mutex::default(),
});

/// The helpers, and those that were given up.
struct Helpers {
    start: fn() -> Command,
    limit: Duration,
    /// The last one used at the end; locked during a request.
    live: Mutex<Vec<Helper>>,
    given_up: Mutex<GivenUp>,
}

#[derive(Default)]
struct GivenUp {
    helpers: Vec<Child>,
    silent: Vec<SilentFileSystem>,
}

struct Helper {
    /// The file system that it is for.
    device: u64,
    process: Child,
    socket: OwnedFd,
}

impl Helpers {
    /// Sends a request, and waits for the reply; what is read is written to `into`.
    fn request(
        &self,
        file_system: &FileSystem,
        request: &Request,
        path: &[u8],
        descriptor: &impl AsFd,
        into: &mut [u8],
    ) -> io::Result<(usize, Option<OwnedFd>)> {
        charge(into.len())?;
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let device = file_system.device;
        loop {
            self.given_up()
                .check(file_system)
                .map_err(io::Error::other)?;
            let known = live.iter().position(|helper| helper.device == device);
            let mut helper = match known {
                Some(at) => live.remove(at),
                None => Helper::start((self.start)(), device)?,
            };
            let deadline = Instant::now() + self.limit;
            match helper.exchange(request, path, descriptor, into, deadline) {
                Ok((errno, bytes, found)) => {
                    live.push(helper);
                    if live.len() > MAX_LIVE {
                        self.end(live.remove(0));
                    }
                    return match errno {
                        0 => Ok((bytes, found)),
                        _ => Err(io::Error::from_raw_os_error(errno)),
                    };
                }
                Err(error) => {
                    // An error means that it has ended.
                    let _ = helper.process.kill();
                    let mut given_up = self.given_up();
                    given_up.helpers.push(helper.process);
                    if error.kind() == io::ErrorKind::TimedOut {
                        let refusal = given_up.add(file_system);
                        return Err(io::Error::other(refusal));
                    }
                    if known.is_none() {
                        return Err(error);
                    }
                    // It may have been killed since the last request: once more, with a new one.
                }
            }
        }
    }

    /// Ends a helper that is not used; it may have to wait for its file system to close files.
    fn end(&self, helper: Helper) {
        let Helper {
            mut process,
            socket,
            ..
        } = helper;
        drop(socket);
        let deadline = Instant::now() + END_LIMIT;
        while matches!(process.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = process.kill();
                self.given_up().helpers.push(process);
                break;
            }
            thread::sleep(END_LIMIT / 100);
        }
    }

    fn given_up(&self) -> MutexGuard<'_, GivenUp> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GivenUp {
    /// Whether requests may be sent to a file system.
    fn check(&mut self, file_system: &FileSystem) -> Result<(), Refusal> {
        self.helpers
            .retain_mut(|process| matches!(process.try_wait(), Ok(None)));
        self.silent.retain(|silent| silent.since.elapsed() < STAY);
        let device = file_system.device;
        let silent = self.silent.iter().find(|silent| silent.device == device);
        match silent {
            Some(silent) => Err(Refusal::Silent(silent.name.clone())),
            None if self.helpers.len() >= MAX_GIVEN_UP => Err(Refusal::TooMany),
            None => Ok(()),
        }
    }

    /// Adds a file system that did not answer.
    fn add(&mut self, file_system: &FileSystem) -> Refusal {
        let name = name(&file_system.point);
        let subject = Subject::new(("file system", file_system.device), name.clone());
        overrun(subject.because("it does not answer"));
        if self.silent.len() >= MAX_SILENT {
            self.silent.remove(0);
        }
        self.silent.push(SilentFileSystem {
            device: file_system.device,
            name: name.clone(),
            since: Instant::now(),
        });
        Refusal::Silent(name)
    }
}

fn name(point: &Path) -> String {
    if point == Path::new("") {
        "a file system".to_owned()
    } else {
        format!("the file system at {}", point.display())
    }
}

impl Helper {
    fn start(mut command: Command, device: u64) -> io::Result<Self> {
        let (socket, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let process = command
            .stdin(other)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // Signals of a terminal are for the agent.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            device,
            process,
            socket,
        })
    }

    /// Sends a request, and waits for the reply: an error number, and what was read or found.
    fn exchange(
        &mut self,
        request: &Request,
        path: &[u8],
        descriptor: &impl AsFd,
        into: &mut [u8],
        deadline: Instant,
    ) -> io::Result<(i32, usize, Option<OwnedFd>)> {
        let descriptor = Some(descriptor.as_fd());
        send(&self.socket, request.as_bytes(), path, descriptor)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let (reply, bytes, found) = receive::<Reply>(&self.socket, into)?;
        Ok((reply.errno, bytes, found))
    }
}

#[cfg(test)]
mod tests {
    use super::{FileSystem, Helpers, MAX_GIVEN_UP, Request};
    use std::{fs::File, path::PathBuf, process::Command, sync::Mutex, thread, time::Duration};
    use zerocopy::FromZeros as _;

    /// Helpers that run this shell command.
    fn helpers(start: fn() -> Command) -> Helpers {
        Helpers {
            start,
            limit: Duration::from_millis(50),
            live: Mutex::default(),
            given_up: Mutex::default(),
        }
    }

    fn refused(helpers: &Helpers, device: u64) -> String {
        let file_system = FileSystem {
            device,
            is_fuse: true,
            point: PathBuf::from(format!("/mnt/{device}")),
        };
        let file = File::open("/dev/null").unwrap();
        let result = helpers.request(&file_system, &Request::new_zeroed(), &[], &file, &mut []);
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_file_system_that_does_not_answer_gets_one_request() {
        let helpers = helpers(|| {
            let mut command = Command::new("sleep");
            command.arg("60");
            command
        });
        for device in [1, 2, 1] {
            let message = format!("the file system at /mnt/{device} does not answer");
            assert_eq!(refused(&helpers, device), message);
        }
        assert_eq!(helpers.given_up().silent.len(), 2);
        // Each was killed, and is replaced.
        for device in 3..20 {
            let message = format!("the file system at /mnt/{device} does not answer");
            assert_eq!(refused(&helpers, device), message);
            while helpers.given_up().helpers.len() >= MAX_GIVEN_UP {
                let mut given_up = helpers.given_up();
                given_up
                    .helpers
                    .retain_mut(|process| matches!(process.try_wait(), Ok(None)));
                drop(given_up);
                thread::yield_now();
            }
        }
    }

    #[test]
    fn helpers_that_are_not_used_end() {
        // It reads one request after the other, and never replies before the end.
        let helpers = helpers(|| Command::new("cat"));
        let mut live = helpers.live.lock().unwrap();
        for device in 0..3 {
            live.push(super::Helper::start(Command::new("cat"), device).unwrap());
        }
        let oldest = live.remove(0);
        helpers.end(oldest);
        assert!(helpers.given_up().helpers.is_empty());
        for helper in live.drain(..) {
            helpers.end(helper);
        }
        assert!(helpers.given_up().helpers.is_empty());
    }

    #[test]
    fn helpers_that_do_not_end_are_bounded() {
        let helpers = helpers(|| Command::new("true"));
        // Processes that are not killed stand for those that cannot be.
        let mut stuck = Vec::new();
        for _ in 0..MAX_GIVEN_UP {
            stuck.push(Command::new("sleep").arg("60").spawn().unwrap());
        }
        helpers.given_up().helpers = stuck;
        assert_eq!(refused(&helpers, 1), "too many file systems do not answer");
        let mut stuck = std::mem::take(&mut helpers.given_up().helpers);
        for process in &mut stuck {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    #[test]
    fn a_helper_that_ends_is_replaced() {
        let helpers = helpers(|| Command::new("true"));
        for _ in 0..10 {
            let error = refused(&helpers, 1);
            assert!(!error.contains("does not answer"), "{error}");
        }
        assert!(helpers.given_up().silent.is_empty());
    }
}
