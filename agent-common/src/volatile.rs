//! State that stays in memory.
//!
//! The verifier of the kernel follows registers, not the contents of map values. A loop whose
//! position lives in registers has a different state in every iteration and cannot be
//! verified; the same loop with its position held in a map value can. [`Volatile`] makes every
//! access a load or a store, so that the compiler cannot move the value into a register.

use core::ptr;

/// A value that is loaded and stored at every access.
#[repr(transparent)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volatile<T>(T);

impl<T: Copy> Volatile<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Loads the value.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: `self.0` is initialised, aligned and borrowed for the time of the load.
        unsafe { ptr::read_volatile(&raw const self.0) }
    }

    /// Stores a value.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        // SAFETY: `self.0` is aligned and borrowed mutably for the time of the store.
        unsafe { ptr::write_volatile(&raw mut self.0, value) }
    }
}

/// `value & mask`, with `value` hidden from the compiler.
///
/// The compiler drops a mask that it can prove to be redundant; older verifiers cannot, and need
/// the mask.
#[inline(always)]
#[must_use]
pub fn masked(value: u32, mask: u32) -> u32 {
    Volatile::new(value).get() & mask
}
