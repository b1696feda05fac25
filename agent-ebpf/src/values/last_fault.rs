//! The last read of user memory that failed.

use agent_common::{memory::UserAddr, volatile::Volatile};

/// The last read that failed in the current sample.
#[repr(C)]
pub(crate) struct LastFault {
    pub(crate) address: Volatile<u64>,
    pub(crate) bytes: Volatile<u32>,
    reserved: u32,
}

impl LastFault {
    /// No failed read.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.address.set(0);
    }

    /// Its address, null if no read failed.
    #[inline(always)]
    pub(crate) fn address(&self) -> UserAddr {
        UserAddr(self.address.get())
    }

    /// How many bytes were requested.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes.get()
    }
}
