//! What could not be read last.

use agent_common::{memory::UserAddr, volatile::Held};

/// What could not be read last for the sample in the making.
#[repr(C)]
pub(crate) struct Absent {
    pub(crate) address: Held<u64>,
    pub(crate) bytes: Held<u32>,
    reserved: u32,
}

impl Absent {
    /// Forgets it.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.address.set(0);
    }

    /// Its address, null where all could be read.
    #[inline(always)]
    pub(crate) fn address(&self) -> UserAddr {
        UserAddr(self.address.get())
    }

    /// How many bytes were wanted.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes.get()
    }
}
