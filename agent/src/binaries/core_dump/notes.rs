//! What the notes say: the threads, the signal, the name of the process and its mapped files.
//!
//! ```text
//! note       name bytes, content bytes, kind (4 each), name, content, both padded to 4
//! NT_FILE    count, page bytes, then for each start, end, offset in pages (8 each), then the paths, each with a zero
//! ```

use std::{
    collections::HashMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use agent_common::{limits::MAX_KNOWN_THREADS, native::Registers};

use super::{error::CoreError, status::Status};
use crate::{binaries::elf::Source, process::maps::strip_deleted};

/// Most notes: of each thread there are some.
const MAX_NOTES: usize = 16 * MAX_THREADS;

/// Most threads.
const MAX_THREADS: usize = MAX_KNOWN_THREADS as usize;

/// Most bytes of a note that is read, besides that of the files.
const MAX_NOTE: u64 = 4096;

/// Most bytes of the note of the files: sixteen times what the kernel writes by default.
const MAX_FILE_NOTE: u64 = 64 << 20;

/// Bytes of a note with the registers of a thread.
#[cfg(test)]
pub(super) const STATUS_BYTES: usize = super::status::BYTES;

/// Kinds of notes, of the names `CORE` and `LINUX`.
const PRSTATUS: u32 = 1;
const PRPSINFO: u32 = 3;
const AUXV: u32 = 6;
const SIGINFO: u32 = 0x5349_4749;
const FILE: u32 = 0x4649_4c45;
const ARM_TLS: u32 = 0x401;

/// `pr_pid`, `pr_fname` and `pr_psargs` of `elf_prpsinfo`, and its size.
const INFO_PID: usize = 24;
const INFO_NAME: usize = 40;
const INFO_ARGUMENTS: usize = 56;
const INFO_BYTES: usize = 136;

/// `AT_PHDR` and `AT_ENTRY`: addresses in the executable.
const AT_PHDR: u64 = 3;
const AT_ENTRY: u64 = 9;

/// `AT_SYSINFO_EHDR`: the address of the vDSO.
const AT_SYSINFO_EHDR: u64 = 33;

/// `AT_EXECFN`: the address of its path.
const AT_EXECFN: u64 = 31;

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreThread {
    /// Its id, in the PID namespace of the process.
    pub tid: u32,
    /// Its registers in user space.
    pub registers: Registers,
    /// Its thread pointer; [`None`] where it is not known.
    pub thread_pointer: Option<u64>,
}

/// The signal for which the dump was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: u32,
    /// The address whose access failed, for signals that have one.
    pub address: Option<u64>,
}

/// A mapped part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileRange {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset of its start in the file, in bytes.
    pub(super) offset: u64,
    /// Index of the file.
    pub(super) file: usize,
}

/// What the notes say.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// The thread that has received the signal first.
    pub(super) threads: Vec<CoreThread>,
    pub(super) signal: Option<Signal>,
    pub(super) pid: u32,
    /// The kernel's name of the process.
    pub(super) name: String,
    /// The first 80 bytes of the command line.
    pub(super) arguments: String,
    /// An address in the executable.
    pub(super) executable: Option<u64>,
    /// The address of its path.
    pub(super) executable_path: Option<u64>,
    /// The address of the vDSO.
    pub(super) vdso: Option<u64>,
    /// The auxiliary vector.
    pub(super) auxiliary: Vec<u8>,
    /// By ascending address.
    pub(super) ranges: Vec<FileRange>,
    /// The paths of the files, and whether they were removed.
    pub(super) files: Vec<(PathBuf, bool)>,
    /// Whether the file ends within the notes.
    pub(super) are_truncated: bool,
}

impl Notes {
    /// Reads the parts of the notes of the file at `path`.
    pub(super) fn read<S: Source>(
        source: &S,
        path: &Path,
        parts: &[(u64, u64)],
    ) -> Result<Self, CoreError> {
        let mut notes = Self::default();
        let mut left = MAX_NOTES;
        for (offset, bytes) in parts {
            if !notes.read_part(source, *offset, offset.saturating_add(*bytes), &mut left) {
                notes.are_truncated = true;
            }
        }
        notes.ranges.sort_by_key(|range| range.start);
        if notes.threads.is_empty() {
            let path = path.to_owned();
            return Err(if notes.are_truncated {
                CoreError::Truncated { path }
            } else {
                CoreError::NoThreads { path }
            });
        }
        if notes.pid == 0 {
            notes.pid = notes.threads.first().map_or(0, |first| first.tid);
        }
        Ok(notes)
    }

    /// Reads one part; returns whether it was read to its end.
    fn read_part<S: Source>(
        &mut self,
        source: &S,
        mut offset: u64,
        end: u64,
        left: &mut usize,
    ) -> bool {
        const HEAD: usize = 12;
        while offset.saturating_add(HEAD as u64) <= end {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let mut head = [0; HEAD];
            if source.fill(&mut head, offset).is_err() {
                return false;
            }
            let [name_bytes, content_bytes, kind] =
                [0, 4, 8].map(|at| u32_at(&head, at).unwrap_or(0));
            let content = padded(offset + HEAD as u64, name_bytes);
            let next = padded(content, content_bytes);
            if next > end.saturating_add(3) {
                return false;
            }
            let limit = if kind == FILE {
                MAX_FILE_NOTE
            } else {
                MAX_NOTE
            };
            let is_wanted = matches!(kind, PRSTATUS | PRPSINFO | AUXV | SIGINFO | FILE | ARM_TLS);
            if is_wanted && u64::from(content_bytes) <= limit {
                match read(source, content, content_bytes) {
                    Some(bytes) => self.add(kind, &bytes),
                    None => return false,
                }
            }
            offset = next;
        }
        true
    }

    fn add(&mut self, kind: u32, content: &[u8]) {
        match kind {
            PRSTATUS => {
                let status = Status::parse(content);
                if let Some(status) = status
                    && self.threads.len() < MAX_THREADS
                {
                    self.add_thread(&status);
                }
            }
            ARM_TLS => {
                // It follows the registers of its thread.
                if let Some(last) = self.threads.last_mut() {
                    last.thread_pointer = last.thread_pointer.or_else(|| u64_at(content, 0));
                }
            }
            PRPSINFO if content.len() == INFO_BYTES => {
                self.pid = u32_at(content, INFO_PID).unwrap_or(0);
                self.name = text(&content[INFO_NAME..INFO_ARGUMENTS]);
                let arguments = text(&content[INFO_ARGUMENTS..]);
                arguments.trim_end().clone_into(&mut self.arguments);
            }
            SIGINFO => self.add_signal(content),
            AUXV => {
                let value = |wanted: &[u64]| {
                    let mut entries = content.as_chunks::<16>().0.iter();
                    let is_wanted = |entry: &&[u8; 16]| {
                        u64_at(*entry, 0).is_some_and(|kind| wanted.contains(&kind))
                    };
                    u64_at(entries.find(is_wanted)?, 8)
                };
                self.executable = value(&[AT_PHDR, AT_ENTRY]);
                self.executable_path = value(&[AT_EXECFN]);
                self.vdso = value(&[AT_SYSINFO_EHDR]);
                content.clone_into(&mut self.auxiliary);
            }
            FILE if self.files.is_empty() => {
                // What is malformed from some file on has those before it.
                let _ = self.add_files(content);
            }
            _ => {}
        }
    }

    fn add_thread(&mut self, status: &Status) {
        // One that a debugger has stopped has none.
        if self.threads.is_empty() && status.signal != 0 {
            self.signal = Some(Signal {
                number: status.signal.into(),
                address: None,
            });
        }
        self.threads.push(CoreThread {
            tid: status.tid,
            registers: status.registers,
            thread_pointer: status.thread_pointer,
        });
    }

    /// `siginfo_t`: number, error, code; then what depends on the signal.
    fn add_signal(&mut self, content: &[u8]) {
        /// `SIGILL`, `SIGBUS`, `SIGFPE` and `SIGSEGV` have an address if the kernel has sent them.
        const WITH_ADDRESS: [u32; 4] = [4, 7, 8, 11];
        let number = u32_at(content, 0).unwrap_or(0);
        let code = u32_at(content, 8).unwrap_or(0).cast_signed();
        let has_address = WITH_ADDRESS.contains(&number) && (1..0x80).contains(&code);
        // It follows the registers of the first thread.
        if let Some(signal) = &mut self.signal
            && self.threads.len() == 1
            && signal.number == number
            && has_address
        {
            signal.address = u64_at(content, 16);
        }
    }

    fn add_files(&mut self, content: &[u8]) -> Option<()> {
        const HEAD: usize = 16;
        const ENTRY: usize = 24;
        let count = usize::try_from(u64_at(content, 0)?).ok()?;
        let page_bytes = u64_at(content, 8)?;
        let names_at = HEAD.checked_add(count.checked_mul(ENTRY)?)?;
        let entries = content.get(HEAD..names_at)?.chunks_exact(ENTRY);
        let mut names = content.get(names_at..)?.split(|&byte| byte == 0);
        let mut known = HashMap::new();
        for entry in entries {
            let name = names.next()?;
            let file = *known.entry(name).or_insert_with(|| {
                let (path, is_deleted) = strip_deleted(name);
                self.files
                    .push((OsString::from_vec(path.to_vec()).into(), is_deleted));
                self.files.len() - 1
            });
            let range = FileRange {
                start: u64_at(entry, 0)?,
                end: u64_at(entry, 8)?,
                offset: u64_at(entry, 16)?.checked_mul(page_bytes)?,
                file,
            };
            if range.start < range.end {
                self.ranges.push(range);
            }
        }
        Some(())
    }
}

/// Where what follows `bytes` bytes at `offset` begins.
fn padded(offset: u64, bytes: u32) -> u64 {
    offset.saturating_add(u64::from(bytes).next_multiple_of(4))
}

fn read<S: Source>(source: &S, offset: u64, bytes: u32) -> Option<Vec<u8>> {
    // Memory is allocated only for bytes that exist.
    let end = offset.checked_add(bytes.into())?;
    if end > source.bytes().ok()? {
        return None;
    }
    let mut content = vec![0; bytes as usize];
    source.fill(&mut content, offset).ok()?;
    Some(content)
}

/// A text up to its first zero.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
