//! What could not be read last.

use agent_common::{memory::UserAddr, volatile::Volatile};

/// What could not be read last for the sample in the making.
#[repr(C)]
pub(crate) struct LastFault {
    pub(crate) address: Volatile<u64>,
    pub(crate) bytes: Volatile<u32>,
    reserved: u32,
}

impl LastFault {
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
