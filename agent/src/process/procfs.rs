//! A process, read through its open directory `/proc/PID`.

use std::{
    ffi::OsString,
    fs::File,
    io::{BufReader, Read as _},
    os::{fd::OwnedFd, unix::ffi::OsStringExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
    param::clock_ticks_per_second,
    time::{ClockId, clock_gettime},
};

use super::{
    cgroup::Cgroup,
    command_line::{self, CommandLine},
    descriptors::Descriptors,
    environment,
    error::{Error, OpenError},
    files::{self, FileIdentity, RegularFile},
    machine::on_machine,
    maps::{self, Mapping},
    memory::Memory,
};

/// Most bytes of `maps`: ten times what 65,530 mappings, the kernel's default bound, take.
const MAPS_BYTES: usize = 64 << 20;

/// Most bytes of any other file in `/proc/PID`.
const SMALL_BYTES: usize = 64 << 10;

/// A running process.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    directory: OwnedFd,
    comm: String,
    executable: PathBuf,
    namespace_pids: Vec<u32>,
    parent: Option<u32>,
    user: Option<u32>,
    memory: Result<Memory, Errno>,
}

impl Process {
    /// Opens the process with this PID.
    ///
    /// # Errors
    ///
    /// When there is none, when it runs no program (a thread, a zombie, a kernel thread), or when
    /// access is denied.
    pub fn open(pid: u32) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(on_machine(format!("/proc/{pid}")), flags, Mode::empty())
            .map_err(|errno| Error::new(pid, ".", errno))?;
        // First: everything below is then read of this program or of a later one, and
        // `is_same_program` detects the latter.
        let memory = Memory::open(&directory);
        let status = read(&directory, pid, "status", SMALL_BYTES)?;
        let comm = read(&directory, pid, "comm", SMALL_BYTES)?;
        let comm = String::from_utf8_lossy(comm.trim_ascii_end()).into_owned();
        match number(&status, "Tgid:") {
            Some(tgid) if tgid != pid => return Err(Error::Thread { pid, tgid }),
            _ => {}
        }
        let state = value(&status, "State:").and_then(<[u8]>::first);
        if matches!(state, Some(b'Z' | b'X')) {
            return Err(Error::Ended { pid, comm });
        }
        let link = match fs::readlinkat(&directory, "exe", Vec::new()) {
            Ok(link) => link.into_bytes(),
            Err(Errno::NOENT) if is_kernel_thread(&read(&directory, pid, "stat", SMALL_BYTES)?) => {
                return Err(Error::KernelThread { pid, comm });
            }
            // A process loses its memory before its state changes.
            Err(Errno::NOENT) => return Err(Error::Ended { pid, comm }),
            Err(errno) => return Err(Error::new(pid, "exe", errno)),
        };
        let (executable, _) = maps::strip_deleted(&link);
        Ok(Self {
            pid,
            directory,
            comm,
            executable: OsString::from_vec(executable.to_vec()).into(),
            namespace_pids: numbers(&status, "NSpid:"),
            parent: number(&status, "PPid:"),
            // In this order: real, effective, saved, file system.
            user: numbers(&status, "Uid:").get(1).copied(),
            memory,
        })
    }

    /// PID in the PID namespace of the agent's `/proc`.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its PID in each PID namespace, from that of the agent's `/proc` to its own.
    #[must_use]
    pub fn namespace_pids(&self) -> &[u32] {
        &self.namespace_pids
    }

    /// PID of its parent: the process that forked it, or the reaper that adopted it.
    #[must_use]
    pub fn parent(&self) -> Option<u32> {
        self.parent
    }

    /// Effective user ID, in the user namespace of the agent.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// Name of its main thread in the kernel (`/proc/PID/comm`), at most 15 bytes.
    #[must_use]
    pub fn comm(&self) -> &str {
        &self.comm
    }

    /// Path of its executable, in its mount namespace, when it was started.
    #[must_use]
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Its control groups.
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn cgroup(&self) -> Result<Cgroup, Error> {
        read(&self.directory, self.pid, "cgroup", SMALL_BYTES).map(|text| Cgroup::parse(&text))
    }

    /// The first 64 KiB of its command line (`/proc/PID/cmdline`), which a process can overwrite.
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn command_line(&self) -> Result<CommandLine, Error> {
        let mut text = Vec::new();
        let file = open(&self.directory, self.pid, "cmdline")?;
        file.take(command_line::MAX_BYTES as u64)
            .read_to_end(&mut text)
            .map_err(|source| Error::from_read(self.pid, "cmdline", source))?;
        Ok(CommandLine::new(text))
    }

    /// The values of the variables `names` in its initial environment.
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn variables<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Option<String>; N], Error> {
        let file = open(&self.directory, self.pid, "environ")?;
        environment::find(BufReader::new(file), names)
            .map_err(|source| Error::from_read(self.pid, "environ", source))
    }

    /// Its memory mappings, by ascending address.
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn mappings(&self) -> Result<Vec<Mapping>, Error> {
        read(&self.directory, self.pid, "maps", MAPS_BYTES).map(|text| maps::parse(&text))
    }

    /// Its memory.
    ///
    /// # Errors
    ///
    /// When it may not be read.
    pub fn memory(&self) -> Result<&Memory, Error> {
        self.memory
            .as_ref()
            .map_err(|errno| Error::new(self.pid, "mem", *errno))
    }

    /// Whether it still runs the program that it ran when it was opened; also `true` where this
    /// cannot be determined because access to its memory is denied.
    #[must_use]
    pub fn is_same_program(&self) -> bool {
        self.memory.as_ref().map_or(true, Memory::is_alive)
    }

    /// When it was started, to a tick of the scheduler.
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn started(&self) -> Result<SystemTime, Error> {
        /// Fields between `comm` and `starttime`.
        const BEFORE_START: usize = 19;

        let stat = read(&self.directory, self.pid, "stat", SMALL_BYTES)?;
        let ticks: u64 = field(&stat, BEFORE_START).unwrap_or(0);
        let ticks_per_second = clock_ticks_per_second().max(1);
        let after_boot = Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second);
        let now = clock_gettime(ClockId::Boottime);
        let since_boot = Duration::try_from(now).unwrap_or_default();
        let ago = since_boot.saturating_sub(after_boot);
        Ok(SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH))
    }

    /// Whether its mount namespace differs from the agent's, as in containers.
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn has_own_mounts(&self) -> Result<bool, Error> {
        let namespace = fs::readlinkat(&self.directory, "ns/mnt", Vec::new())
            .map_err(|errno| Error::new(self.pid, "ns/mnt", errno))?;
        let own = fs::readlink("/proc/self/ns/mnt", Vec::new())
            .map_err(|errno| Error::new(self.pid, "ns/mnt", errno))?;
        Ok(namespace != own)
    }

    /// Its working directory, as an absolute path for [`Self::open_in_root`].
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn working_directory(&self) -> Result<PathBuf, Error> {
        let link = fs::readlinkat(&self.directory, "cwd", Vec::new())
            .map_err(|errno| Error::new(self.pid, "cwd", errno))?;
        Ok(OsString::from_vec(link.into_bytes()).into())
    }

    /// Its file descriptors.
    ///
    /// # Errors
    ///
    /// When the process is gone or access is denied.
    pub fn descriptors(&self) -> Result<Descriptors, Error> {
        Descriptors::open(&self.directory).map_err(|errno| Error::new(self.pid, "fd", errno))
    }

    /// The identity of the file of a mapping, without opening it.
    ///
    /// # Errors
    ///
    /// When the file cannot be found.
    pub fn identify_mapped(&self, mapping: &Mapping) -> Result<FileIdentity, OpenError> {
        files::identify_mapped(&self.directory, mapping)
    }

    /// Opens a regular file for reading; `path` is absolute and resolved in the root directory of
    /// the process.
    ///
    /// # Errors
    ///
    /// When it cannot be opened or is not a regular file.
    pub fn open_in_root(&self, path: &Path) -> Result<RegularFile, OpenError> {
        files::open_in_root(&self.directory, path)
    }

    /// Opens the file of a mapping for reading.
    ///
    /// # Errors
    ///
    /// When it cannot be opened or is not a regular file.
    pub fn open_mapped(&self, mapping: &Mapping) -> Result<RegularFile, OpenError> {
        files::open_mapped(&self.directory, mapping)
    }
}

/// Opens a file below `/proc/PID`.
fn open(directory: &OwnedFd, pid: u32, name: &'static str) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    fs::openat(directory, name, flags, Mode::empty())
        .map(File::from)
        .map_err(|errno| Error::new(pid, name, errno))
}

/// Reads a file below `/proc/PID`.
fn read(directory: &OwnedFd, pid: u32, name: &'static str, limit: usize) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    open(directory, pid, name)?
        .take(limit as u64 + 1)
        .read_to_end(&mut text)
        .map_err(|source| Error::from_read(pid, name, source))?;
    if text.len() > limit {
        return Err(Error::TooLong {
            pid,
            file: name,
            limit,
        });
    }
    Ok(text)
}

/// The value of `key` in a file `status`.
fn value<'a>(status: &'a [u8], key: &str) -> Option<&'a [u8]> {
    status
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(key.as_bytes()))
        .map(<[u8]>::trim_ascii)
}

/// The numbers of `key` in a file `status`.
pub fn numbers(status: &[u8], key: &str) -> Vec<u32> {
    value(status, key)
        .unwrap_or_default()
        .split(u8::is_ascii_whitespace)
        .filter_map(|digits| str::from_utf8(digits).ok()?.parse().ok())
        .collect()
}

fn number(status: &[u8], key: &str) -> Option<u32> {
    numbers(status, key).first().copied()
}

/// Whether a file `stat` belongs to a kernel thread.
#[must_use]
pub fn is_kernel_thread(stat: &[u8]) -> bool {
    /// Bit `PF_KTHREAD` of the field `flags`.
    const KERNEL_THREAD: u64 = 0x20_0000;
    /// Fields between `comm` and `flags`.
    const BEFORE_FLAGS: usize = 6;

    field(stat, BEFORE_FLAGS).is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// The number in a file `stat` with so many fields between `comm` and it.
pub(super) fn field(stat: &[u8], before: usize) -> Option<u64> {
    let (_, mut fields) = comm_and_fields(stat)?;
    str::from_utf8(fields.nth(before)?).ok()?.parse().ok()
}

/// `comm` in a file `stat`, and the fields behind it, the first of which is the state.
pub(super) fn comm_and_fields(stat: &[u8]) -> Option<(&[u8], impl Iterator<Item = &[u8]>)> {
    let begin = stat.iter().position(|&byte| byte == b'(')? + 1;
    // `comm` may contain any byte, so fields are counted from its closing parenthesis.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = stat.get(end + 1..)?.trim_ascii_start();
    let fields = rest.split(|&byte| byte == b' ');
    Some((stat.get(begin..end)?, fields))
}
