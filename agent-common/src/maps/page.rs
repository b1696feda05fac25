//! Pages by which processes grow.

/// A page of which there is a record: the key of the map `PAGES`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageKey {
    /// As [`NewPage::address`](crate::record::NewPage::address).
    pub page: u64,
    /// The process, in the initial PID namespace.
    pub tgid: u32,
    /// Zero.
    reserved: u32,
}

impl PageKey {
    /// A page of a process.
    #[inline(always)]
    #[must_use]
    pub const fn new(tgid: u32, page: u64) -> Self {
        Self {
            page,
            tgid,
            reserved: 0,
        }
    }
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for PageKey {}
