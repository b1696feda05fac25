//! The location of a code address: its file and its unwind rule.

use crate::{maps::TableState, record::NativeKind, unwind::Rule};

/// The location of a code address.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLocation {
    /// The address in the file, or in the process where there is no file.
    pub address: u64,
    /// How the caller is found.
    pub rule: Rule,
    /// The number of the file, or the process.
    pub file_or_pid: u32,
    /// [`NativeKind::FILE`] or [`NativeKind::ANONYMOUS`], else it is in no mapping.
    pub kind: NativeKind,
    /// Whether the file has an unwind table.
    pub table: TableState,
    /// Zero.
    pub reserved: u32,
}

impl CodeLocation {
    /// In no mapping.
    pub const NOWHERE: Self = Self {
        address: 0,
        rule: Rule::UNKNOWN,
        file_or_pid: 0,
        kind: NativeKind(0),
        table: TableState::NONE,
        reserved: 0,
    };
}

/// Lookup of code addresses.
pub trait CodeLookup {
    /// The location of an address in the code of the frame with this stack pointer.
    fn find(&mut self, address: u64, stack_pointer: u64) -> Option<&CodeLocation>;
}
