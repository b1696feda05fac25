//! A piece of memory into which structures of the sampled process are copied, and from which
//! their fields are taken.
//!
//! The frames of a thread lie side by side in its data stack, and a read costs the same
//! whatever its size. So a *window* of the data stack is copied at once; a structure outside
//! of it goes into the *slot*. Every access is masked, so that neither the compiler nor the
//! verifier has to know its bounds.

use crate::{
    limits::WINDOW_BYTES,
    memory::{Fault, UserAddr, UserMemory},
};

const WORDS: usize = 2048;
const MASK: usize = WORDS - 1;

/// Words of the slot.
const SLOT_WORDS: usize = 64;

/// Bytes that the slot takes.
pub const SLOT_BYTES: usize = SLOT_WORDS * 8;

/// Offset of the slot, in bytes.
pub const SLOT: usize = (WORDS - SLOT_WORDS) * 8;

const _: () = assert!(WINDOW_BYTES <= SLOT);

/// The window and the slot.
#[repr(C)]
#[derive(Debug)]
pub struct Scratch {
    words: [u64; WORDS],
}

impl Scratch {
    /// Nothing copied yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: [0; WORDS] }
    }

    /// Copies up to [`WINDOW_BYTES`] bytes at `address` to the start of the window.
    ///
    /// # Errors
    ///
    /// [`Fault`] when not all of it can be read.
    #[inline(always)]
    pub fn load_window<M: UserMemory>(
        &mut self,
        memory: &M,
        address: UserAddr,
        bytes: u64,
    ) -> Result<(), Fault> {
        let bytes = if bytes > WINDOW_BYTES as u64 {
            WINDOW_BYTES as u32
        } else {
            bytes as u32
        };
        // SAFETY: the window has room for `WINDOW_BYTES`.
        unsafe { memory.copy(address, self.words.as_mut_ptr().cast(), bytes) }
    }

    /// The same, without recording a fault.
    ///
    /// # Errors
    ///
    /// [`Fault`] when not all of it can be read.
    #[inline(always)]
    pub fn try_load_window<M: UserMemory>(
        &mut self,
        memory: &M,
        address: UserAddr,
        bytes: u64,
    ) -> Result<(), Fault> {
        let bytes = if bytes > WINDOW_BYTES as u64 {
            WINDOW_BYTES as u32
        } else {
            bytes as u32
        };
        // SAFETY: the window has room for `WINDOW_BYTES`.
        unsafe { memory.try_copy(address, self.words.as_mut_ptr().cast(), bytes) }
    }

    /// Copies up to [`SLOT_BYTES`] bytes at `address` to the slot.
    ///
    /// # Errors
    ///
    /// [`Fault`] when not all of it can be read.
    #[inline(always)]
    pub fn load_slot<M: UserMemory>(
        &mut self,
        memory: &M,
        address: UserAddr,
        bytes: u16,
    ) -> Result<(), Fault> {
        let bytes = if bytes as usize > SLOT_BYTES {
            SLOT_BYTES as u32
        } else {
            u32::from(bytes)
        };
        // SAFETY: `SLOT` lies `SLOT_BYTES` before the end of `words`.
        unsafe {
            memory.copy(
                address,
                self.words.as_mut_ptr().cast::<u8>().add(SLOT),
                bytes,
            )
        }
    }

    /// The eight bytes at `offset`, which is a multiple of eight.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, offset: usize) -> u64 {
        self.words[(offset >> 3) & MASK]
    }

    /// The four bytes at `offset`, which is a multiple of four.
    #[inline(always)]
    #[must_use]
    pub fn half(&self, offset: usize) -> u32 {
        (self.word(offset) >> ((offset & 4) * 8)) as u32
    }

    /// The byte at `offset`.
    #[inline(always)]
    #[must_use]
    pub fn byte(&self, offset: usize) -> u8 {
        (self.word(offset) >> ((offset & 7) * 8)) as u8
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}
