//! A structure that was copied out of a process.

use agent_common::{
    limits::USER_ADDRESS_END,
    memory::{Fault, UserAddr, UserMemory},
};

/// Most bytes of a structure.
const MAX_BYTES: u64 = 64 << 10;

/// The bytes of a structure.
pub(super) struct Structure(Vec<u8>);

impl Structure {
    /// Copies `bytes` bytes at `address`.
    pub(super) fn read<M: UserMemory>(
        memory: &M,
        address: UserAddr,
        bytes: u64,
    ) -> Result<Self, Fault> {
        if !address.could_be_structure() || bytes > MAX_BYTES {
            return Err(Fault);
        }
        let count = u32::try_from(bytes).map_err(|_| Fault)?;
        let mut copy = vec![0; count as usize];
        // SAFETY: `copy` has this length.
        unsafe { memory.copy(address, copy.as_mut_ptr(), count)? };
        Ok(Self(copy))
    }

    /// The word at `offset`; 0 outside of the structure.
    pub(super) fn word(&self, offset: u64) -> u64 {
        self.chunk(offset).map_or(0, u64::from_le_bytes)
    }

    /// The four bytes at `offset`.
    pub(super) fn half(&self, offset: u64) -> u32 {
        self.chunk(offset).map_or(0, u32::from_le_bytes)
    }

    /// The byte at `offset`.
    pub(super) fn byte(&self, offset: u64) -> u8 {
        self.chunk(offset).map_or(0, u8::from_le_bytes)
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn chunk<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let offset = usize::try_from(offset).ok()?;
        self.0.get(offset..)?.first_chunk().copied()
    }
}

/// The address `offset` bytes behind another one.
pub(super) fn behind(address: UserAddr, offset: u64) -> UserAddr {
    UserAddr(address.0.wrapping_add(offset))
}

/// Copies `count` bytes, which may begin anywhere.
pub(super) fn read_bytes<M: UserMemory>(
    memory: &M,
    address: UserAddr,
    count: usize,
) -> Result<Vec<u8>, Fault> {
    let bytes = u32::try_from(count).map_err(|_| Fault)?;
    if u64::from(bytes) > MAX_BYTES || address.0 >= USER_ADDRESS_END {
        return Err(Fault);
    }
    let mut copy = vec![0; count];
    // SAFETY: `copy` has this length.
    unsafe { memory.copy(address, copy.as_mut_ptr(), bytes)? };
    Ok(copy)
}
