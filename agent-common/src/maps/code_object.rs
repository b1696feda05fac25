//! What is remembered of code objects.

use crate::cache_age::CacheAge;

/// Where a code object is remembered: the key of the map `CODE_OBJECTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeKey {
    /// Its address.
    pub address: u64,
    /// Its process, in the initial PID namespace.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

/// The fields of a code object that tell it from another one at the same address.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeIdentity {
    /// Address of its name.
    pub name: u64,
    /// Hash of its name, by the interpreter: another code object may have all of its parts at
    /// the same addresses.
    pub name_hash: u64,
    /// Address of its file's name.
    pub file: u64,
    /// Address of its line table.
    pub line_table: u64,
    /// `co_firstlineno`.
    pub first_line: i32,
    /// Bytes of bytecode before the first instruction that the interpreter shows.
    pub first_traceable_bytes: u32,
}

/// What is remembered of a code object: the value of the map `CODE_OBJECTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedCode {
    /// Hash of its contents.
    pub symbol: u64,
    /// What it looked like.
    pub identity: CodeIdentity,
    /// Since when, and when that was last proved.
    pub age: CacheAge,
}
