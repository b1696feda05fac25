//! The memory of a process that a run's bytes are.

use agent_common::memory::{Fault, UserAddr, UserMemory};

/// Where the memory starts.
pub(crate) const START: u64 = 0x7f00_0000_0000;

/// Bytes at [`START`]; all else faults.
pub(crate) struct Memory(Vec<u8>);

impl Memory {
    /// Memory of exactly these bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Memory of which two bytes of a run are eight: a small number, or a pointer into the memory
    /// where the highest bit is set. Any bytes so have structures that lead to others.
    pub(crate) fn of_cells(bytes: &[u8]) -> Self {
        let (cells, _) = bytes.as_chunks();
        let words = cells.iter().map(|cell| {
            let cell = usize::from(u16::from_le_bytes(*cell));
            let index = cell & 0x7fff;
            if cell == index {
                cell as u64
            } else {
                START + 8 * (index % cells.len()) as u64
            }
        });
        Self(words.flat_map(u64::to_le_bytes).collect())
    }

    /// Writes a word, where the memory has room for it or can be extended.
    pub(crate) fn set(&mut self, address: UserAddr, word: u64) {
        const MOST: usize = 1 << 16;
        let at = usize::try_from(address.0.wrapping_sub(START)).unwrap_or(MOST);
        if at < MOST {
            self.0.resize(self.0.len().max(at + 8), 0);
            self.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
    }
}

impl UserMemory for Memory {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        let start = address.0.checked_sub(START).ok_or(Fault)?;
        let start = usize::try_from(start).map_err(|_| Fault)?;
        let end = start.checked_add(bytes as usize).ok_or(Fault)?;
        let from = self.0.get(start..end).ok_or(Fault)?;
        // SAFETY: `into` is valid for so many bytes, and no part of this memory.
        unsafe { into.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }
}
