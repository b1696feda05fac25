//! The memory of a process, read from the outside.
//!
//! It is that of the program that ran when it was opened: when the process has ended, or started
//! another program, nothing is read any more, and never the memory of something else. That is
//! why it is a file, `/proc/PID/mem`, and not `process_vm_readv`, which takes a mere id.
//!
//! Invariants: the process is not stopped and not changed, so what is read may be torn and is to
//! be taken for a claim; a read never takes more memory than its caller has given it.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt as _},
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

/// The memory of a program that runs.
#[derive(Debug)]
pub struct Memory(File);

/// Why memory was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryReadError {
    /// The process has ended or runs another program.
    Gone,
    /// Nothing is there.
    Unmapped,
}

impl Memory {
    /// Opens it; `process` is the open directory `/proc/PID`.
    pub(super) fn open(process: &OwnedFd) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let memory = fs::openat(process, "mem", flags, Mode::empty())?;
        Ok(Self(memory.into()))
    }

    /// Fills `into` with what is at `address`.
    ///
    /// # Errors
    ///
    /// When not all of it could be read.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryReadError> {
        // Files end in the middle of what numbers can express.
        if i64::try_from(address.saturating_add(into.len() as u64)).is_err() {
            return Err(MemoryReadError::Unmapped);
        }
        self.0
            .read_exact_at(into, address)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof if !self.is_alive() => MemoryReadError::Gone,
                _ => MemoryReadError::Unmapped,
            })
    }

    /// The 64-bit number at `address`.
    ///
    /// # Errors
    ///
    /// When it could not be read.
    pub fn word(&self, address: u64) -> Result<u64, MemoryReadError> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Whether the program still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // Nothing is mapped at 0, which is an error; that there is no memory at all is none, but
        // the end of the file.
        !matches!(self.0.read_at(&mut [0], 0), Ok(0))
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryReadError;
    use crate::process::Process;
    use std::process::{Command, Stdio, id};

    #[test]
    fn own_memory_is_read() {
        let process = Process::open(id()).unwrap();
        let memory = process.memory().unwrap();
        let value = std::hint::black_box(0x1234_5678_9abc_def0_u64);
        assert_eq!(memory.word((&raw const value) as u64), Ok(value));
        for address in [0, 8, u64::MAX, u64::MAX - 7, i64::MAX.cast_unsigned() - 7] {
            assert_eq!(
                memory.word(address),
                Err(MemoryReadError::Unmapped),
                "{address:#x}"
            );
        }
        assert!(memory.is_alive());
    }

    #[test]
    fn another_program_in_the_same_process_is_not_read() {
        let mut child = Command::new("sh")
            .args(["-c", "read line; exec sleep 60"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let process = loop {
            let process = Process::open(child.id()).unwrap();
            if process.executable() != std::env::current_exe().unwrap() {
                break process;
            }
        };
        let memory = process.memory().unwrap();
        let start = process.mappings().unwrap()[0].start;
        memory.word(start).unwrap();
        assert!(process.is_same_program());
        drop(child.stdin.take());
        while memory.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(memory.word(start), Err(MemoryReadError::Gone));
        assert!(!process.is_same_program());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
