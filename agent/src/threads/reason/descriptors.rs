//! The kinds of the files that the descriptors of a process refer to.
//!
//! The link `/proc/PID/fd/N` is read, never followed: its text is composed by the kernel's `d_path`
//! from names in its cache of directories, under locks that nobody holds while waiting, so that no file
//! system is asked. A `stat` of the file could wait for the server of a network or FUSE file system for
//! ever. So what is known is the text: a named pipe and most devices count as files.
//!
//! Invariants: at most [`MAX_CACHED`] kinds are kept; a text is never longer than [`TEXT_BYTES`].

use std::collections::HashMap;

use crate::process::{Descriptors, Error, Process};

/// Most descriptors of a process whose kinds are kept during a pass; the links of more are read anew
/// each time.
const MAX_CACHED: usize = 1024;

/// Bytes of a link's text that are read; what is longer is a file.
const TEXT_BYTES: usize = 256;

/// What a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A socket.
    Socket,
    /// A pipe without a name.
    Pipe,
    /// A terminal.
    Terminal,
    /// Events of the kernel: `eventfd`, `inotify`, `fanotify`, `signalfd`, `userfaultfd`, requests for a FUSE
    /// server, input devices.
    Event,
    /// `timerfd`.
    Timer,
    /// Any other file with a path: a regular file, a directory, a device, a pipe with a name.
    File,
    /// A ring of `io_uring`.
    IoUring,
    /// It is closed, its link may not be read, or reading from it is not possible.
    Unknown,
}

impl FileKind {
    /// The kind by the text of the link.
    #[must_use]
    pub fn of_link(text: &[u8]) -> Self {
        // Only paths begin with a slash, whatever a file is called.
        if text.starts_with(b"/") {
            return Self::of_path(text);
        }
        let begins = |with: &str| text.starts_with(with.as_bytes());
        if begins("socket:") {
            Self::Socket
        } else if begins("pipe:") {
            Self::Pipe
        } else if begins("anon_inode:[timerfd]") {
            Self::Timer
        } else if begins("anon_inode:[io_uring]") {
            Self::IoUring
        } else if EVENTS.iter().any(|name| begins(name)) {
            Self::Event
        } else {
            Self::Unknown
        }
    }

    fn of_path(path: &[u8]) -> Self {
        let begins = |with: &&str| path.starts_with(with.as_bytes());
        if TERMINALS.iter().any(begins) || is_pseudo_terminal(path) {
            Self::Terminal
        } else if EVENT_DEVICES.iter().any(begins) {
            Self::Event
        } else {
            Self::File
        }
    }
}

/// Beginnings of the links to files without a name from which events are read.
const EVENTS: [&str; 6] = [
    "anon_inode:[eventfd]",
    "anon_inode:[eventfd:",
    "anon_inode:inotify",
    "anon_inode:[fanotify]",
    "anon_inode:[signalfd]",
    "anon_inode:[userfaultfd]",
];

/// Beginnings of the paths of terminals.
const TERMINALS: [&str; 3] = ["/dev/tty", "/dev/console", "/dev/ptmx"];

/// Whether a path is that of a pseudo-terminal; below the root directory of the process, which is not
/// that of the agent after a `chroot`.
fn is_pseudo_terminal(path: &[u8]) -> bool {
    /// The end of its path, before its number.
    const FOLDER: &[u8] = b"/dev/pts/";

    let number = path.rsplit(|&byte| byte == b'/').next();
    let number = number.unwrap_or_default();
    let folder = path.get(..path.len() - number.len());
    let is_number = number.iter().all(u8::is_ascii_digit) && !number.is_empty();
    let is_ptmx = number == b"ptmx";
    (is_number || is_ptmx) && folder.is_some_and(|folder| folder.ends_with(FOLDER))
}

/// Beginnings of the paths of devices from which events are read.
const EVENT_DEVICES: [&str; 3] = ["/dev/fuse", "/dev/net/tun", "/dev/input/"];

/// The kinds of the descriptors of one process, each read at most once in a pass.
///
/// The descriptors are those of its main thread, which all threads share in any Python program.
#[derive(Debug)]
pub struct FileKinds {
    descriptors: Descriptors,
    cached: HashMap<i32, FileKind>,
}

impl FileKinds {
    /// Opens the list of descriptors of a process, which stays that of this process.
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn open(process: &Process) -> Result<Self, Error> {
        Ok(Self {
            descriptors: process.descriptors()?,
            cached: HashMap::new(),
        })
    }

    /// Discards all kinds, since a number may refer to another file in the next pass.
    pub fn begin_pass(&mut self) {
        self.cached.clear();
    }

    /// The kind of what a descriptor refers to now.
    pub fn kind(&mut self, descriptor: i32) -> FileKind {
        if let Some(kind) = self.cached.get(&descriptor) {
            return *kind;
        }
        let mut text = [0; TEXT_BYTES];
        let link = self.descriptors.link(descriptor, &mut text);
        let kind = link.map_or(FileKind::Unknown, FileKind::of_link);
        if self.cached.len() < MAX_CACHED {
            self.cached.insert(descriptor, kind);
        }
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::{FileKind, FileKinds, MAX_CACHED};
    use crate::process::Process;
    use rustix::{
        event::{EventfdFlags, eventfd},
        io::dup2,
        net::{AddressFamily, SocketType, socket},
        time::{TimerfdClockId, TimerfdFlags, timerfd_create},
    };
    use std::{
        io::pipe,
        os::fd::{AsRawFd as _, OwnedFd},
        process::id,
    };

    fn own() -> FileKinds {
        FileKinds::open(&Process::open(id()).unwrap()).unwrap()
    }

    #[test]
    fn descriptors_of_every_kind_are_recognized() {
        let (input, output) = pipe().unwrap();
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap();
        let event = eventfd(0, EventfdFlags::empty()).unwrap();
        let file = tempfile::tempfile().unwrap();
        let mut kinds = own();
        for (descriptor, kind) in [
            (input.as_raw_fd(), FileKind::Pipe),
            (output.as_raw_fd(), FileKind::Pipe),
            (socket.as_raw_fd(), FileKind::Socket),
            (timer.as_raw_fd(), FileKind::Timer),
            (event.as_raw_fd(), FileKind::Event),
            (file.as_raw_fd(), FileKind::File),
            (1 << 20, FileKind::Unknown),
            (-1, FileKind::Unknown),
            (i32::MIN, FileKind::Unknown),
        ] {
            assert_eq!(kinds.kind(descriptor), kind, "{descriptor}");
        }
    }

    #[test]
    fn links_are_recognized_by_their_text() {
        for (text, kind) in [
            ("socket:[12345]", FileKind::Socket),
            ("pipe:[1]", FileKind::Pipe),
            ("anon_inode:[timerfd]", FileKind::Timer),
            ("anon_inode:[eventfd]", FileKind::Event),
            ("anon_inode:[eventfd:7]", FileKind::Event),
            ("anon_inode:inotify", FileKind::Event),
            ("anon_inode:[fanotify]", FileKind::Event),
            ("anon_inode:[signalfd]", FileKind::Event),
            ("anon_inode:[userfaultfd]", FileKind::Event),
            ("anon_inode:[io_uring]", FileKind::IoUring),
            ("anon_inode:[eventpoll]", FileKind::Unknown),
            ("anon_inode:[pidfd]", FileKind::Unknown),
            ("net:[4026531840]", FileKind::Unknown),
            ("", FileKind::Unknown),
            ("/dev/pts/0", FileKind::Terminal),
            ("/srv/jail/dev/pts/12", FileKind::Terminal),
            ("/dev/pts/ptmx", FileKind::Terminal),
            ("/home/me/dev/pts/notes", FileKind::File),
            ("/home/me/pts/1", FileKind::File),
            ("/dev/tty", FileKind::Terminal),
            ("/dev/ttyS0", FileKind::Terminal),
            ("/dev/console", FileKind::Terminal),
            ("/dev/fuse", FileKind::Event),
            ("/dev/null", FileKind::File),
            ("/dev/vda", FileKind::File),
            ("/tmp/file (deleted)", FileKind::File),
            ("/memfd:name (deleted)", FileKind::File),
            // A file of any name has a path.
            ("/tmp/socket:[1]", FileKind::File),
        ] {
            assert_eq!(FileKind::of_link(text.as_bytes()), kind, "{text}");
        }
    }

    #[test]
    fn a_kind_is_kept_during_a_pass_only() {
        let (input, _output) = pipe().unwrap();
        let mut descriptor = OwnedFd::from(input);
        let mut kinds = own();
        assert_eq!(kinds.kind(descriptor.as_raw_fd()), FileKind::Pipe);
        dup2(tempfile::tempfile().unwrap(), &mut descriptor).unwrap();
        assert_eq!(kinds.kind(descriptor.as_raw_fd()), FileKind::Pipe);
        kinds.begin_pass();
        assert_eq!(kinds.kind(descriptor.as_raw_fd()), FileKind::File);
    }

    #[test]
    fn the_cache_is_bounded() {
        let mut kinds = own();
        for descriptor in 0..2 * i32::try_from(MAX_CACHED).unwrap() {
            kinds.kind(100_000 + descriptor);
        }
        assert_eq!(kinds.cached.len(), MAX_CACHED);
        assert_eq!(kinds.kind(200_000), FileKind::Unknown);
    }
}
