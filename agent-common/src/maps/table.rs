//! Where unwind tables are.

/// Where the unwind table of an executable file is: the value of the map `TABLES`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLocation {
    /// First address of the table, as in the file.
    pub base: u64,
    /// Pages of the table.
    pub pages: u32,
    /// Index into the map of maps that hold tables.
    pub map: u32,
    /// The first block of the table in that map.
    pub first_block: u32,
    /// Whether there is one.
    pub state: TableState,
}

/// Whether there is an unwind table.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableState(pub u32);

impl TableState {
    /// Not loaded: requested when it is needed.
    pub const ABSENT: Self = Self(0);
    /// There is.
    pub const LOADED: Self = Self(1);
    /// The file has none: frame pointers may help.
    pub const NONE: Self = Self(2);
}

#[cfg(feature = "user")]
// SAFETY: integers without padding, valid for any bytes.
unsafe impl aya::Pod for TableLocation {}

const _: () = assert!(size_of::<TableLocation>() == 24);
