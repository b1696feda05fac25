//! The cache of code objects.

use crate::cache_age::CacheAge;

/// The key of the map `CODE_OBJECTS`.
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

/// The fields that distinguish a code object from another one at the same address.
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

/// A cached code object: the value of the map `CODE_OBJECTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedCode {
    /// Hash of its contents.
    pub symbol: u64,
    /// Its identity.
    pub identity: CodeIdentity,
    /// When it was cached and last revalidated.
    pub age: CacheAge,
}
