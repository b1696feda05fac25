//! The memory of another process, or of one that has ended, for the walk.
//!
//! Pages that are not resident are faulted in, which a BPF program cannot do at a sample.

use std::slice;

use agent_common::memory::{Fault, UserAddr, UserMemory};

use crate::{
    binaries::{core_dump::CoreDump, elf::Source},
    process::Memory,
};

impl UserMemory for Memory {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller guarantees that `into` is valid for `bytes` bytes, which are
        // initialised here.
        let into = unsafe {
            into.write_bytes(0, bytes as usize);
            slice::from_raw_parts_mut(into, bytes as usize)
        };
        self.read(address.0, into).map_err(|_| Fault)
    }
}

impl<S: Source> UserMemory for CoreDump<S> {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller guarantees that `into` is valid for `bytes` bytes, which are
        // initialised here.
        let into = unsafe {
            into.write_bytes(0, bytes as usize);
            slice::from_raw_parts_mut(into, bytes as usize)
        };
        self.read_memory(address.0, into).map_err(|_| Fault)
    }
}
