//! Reading the memory of the sampled process.

use crate::limits::USER_ADDRESS_END;

/// An address in the sampled process, not validated.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserAddr(pub u64);

impl UserAddr {
    /// The address of the field that is `offset` bytes into the structure here.
    #[inline(always)]
    #[must_use]
    pub const fn field(self, offset: u16) -> Self {
        Self(self.0.wrapping_add(offset as u64))
    }

    /// Whether this is the null pointer.
    #[inline(always)]
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Whether a structure with pointers in it could be here.
    #[inline(always)]
    #[must_use]
    pub const fn could_be_structure(self) -> bool {
        self.0.is_multiple_of(8) && self.0 != 0 && self.0 < USER_ADDRESS_END
    }
}

/// Some byte of the requested range is not mapped or not resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The memory of one process.
pub trait UserMemory {
    /// Copies `bytes` bytes at `address` to `into`.
    ///
    /// # Errors
    ///
    /// [`Fault`]; `into` then holds anything.
    ///
    /// # Safety
    ///
    /// `into` must be valid for writes of `bytes` bytes.
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault>;

    /// The same, without recording a fault: another attempt follows if it fails.
    ///
    /// # Errors
    ///
    /// [`Fault`] as for [`copy`](Self::copy).
    ///
    /// # Safety
    ///
    /// As for [`copy`](Self::copy).
    #[inline(always)]
    unsafe fn try_copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        // SAFETY: the caller's.
        unsafe { self.copy(address, into, bytes) }
    }

    /// Discards the note of the last fault, if such a note is kept.
    #[inline(always)]
    fn clear_fault(&self) {}

    /// Reads the eight bytes at `address`.
    ///
    /// # Errors
    ///
    /// [`Fault`] as for [`copy`](Self::copy).
    #[inline(always)]
    fn word(&self, address: UserAddr) -> Result<u64, Fault> {
        let mut word = 0_u64;
        // SAFETY: `word` is eight bytes.
        unsafe { self.copy(address, (&raw mut word).cast(), 8)? };
        Ok(word)
    }

    /// The same, with 0 for what cannot be read. Older verifiers reject what the compiler
    /// generates for `word(address).unwrap_or(0)`, which leaves a part of the result undefined.
    #[inline(always)]
    fn word_or_zero(&self, address: UserAddr) -> u64 {
        let mut word = 0_u64;
        // SAFETY: `word` is eight bytes.
        let result = unsafe { self.copy(address, (&raw mut word).cast(), 8) };
        if result.is_err() {
            return 0;
        }
        word
    }
}
