//! Executable memory of processes.

/// Executable memory of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// An address in the process minus the address in the file.
    pub bias: u64,
    /// The number of the file; [`Mapping::ANONYMOUS`] without one.
    pub executable: u32,
    /// Index of the file's unwind table.
    pub table: u32,
}

impl Mapping {
    /// Stands for a file where there is none.
    pub const ANONYMOUS: u32 = 0;
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for Mapping {}

const _: () = assert!(size_of::<Mapping>() == 32);
