//! Reads the memory of another process.
//!
//! An open `/proc/PID/mem` stays bound to the program that ran when it was opened: after an exit
//! or an `exec` reads fail and never reach other memory. `process_vm_readv` takes a PID, which can
//! be reused, and has no such guarantee.
//!
//! Invariants: the process is neither stopped nor changed, so what is read may be torn and is
//! untrusted; a read allocates nothing.

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt as _},
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

use crate::workers::charge;

/// The memory of a running program.
#[derive(Debug)]
pub struct Memory(File);

/// Why memory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryReadError {
    /// The process has ended or runs another program.
    Gone,
    /// Not all of the range is mapped and readable.
    Unmapped,
}

impl Memory {
    /// Opens the file `mem` of `process`, an open directory `/proc/PID`.
    pub(super) fn open(process: &OwnedFd) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let memory = fs::openat(process, "mem", flags, Mode::empty())?;
        Ok(Self(memory.into()))
    }

    /// Fills `into` from `address`.
    ///
    /// # Errors
    ///
    /// When not all of it could be read.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryReadError> {
        // File offsets are signed.
        if i64::try_from(address.saturating_add(into.len() as u64)).is_err() {
            return Err(MemoryReadError::Unmapped);
        }
        charge(into.len()).map_err(|_| MemoryReadError::Unmapped)?;
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
        // Address 0 is not mapped, which is an error; a process without memory gives the end of
        // the file instead.
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
    fn the_memory_after_an_exec_is_not_read() {
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
