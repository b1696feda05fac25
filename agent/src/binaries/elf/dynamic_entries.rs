//! The entries of a dynamic section.

use goblin::elf::dynamic::{
    DT_GNU_HASH, DT_HASH, DT_JMPREL, DT_NULL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_SONAME, DT_STRSZ,
    DT_STRTAB, DT_SYMTAB,
};

use super::numbers::u64_at;

/// Addresses of the tables, before the load bias is added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dynamic {
    pub(super) symbols: Option<u64>,
    pub(super) names: Option<u64>,
    pub(super) names_bytes: Option<u64>,
    pub(super) gnu_hash: Option<u64>,
    pub(super) hash: Option<u64>,
    /// Offset in the names.
    pub(super) soname: Option<u64>,
    pub(super) relocations: Option<u64>,
    pub(super) relocations_bytes: Option<u64>,
    pub(super) plt_relocations: Option<u64>,
    pub(super) plt_relocations_bytes: Option<u64>,
}

impl Dynamic {
    /// Parses the section.
    pub(super) fn parse(section: &[u8]) -> Self {
        let mut dynamic = Self::default();
        let (entries, _) = section.as_chunks::<16>();
        for entry in entries {
            let value = Some(u64_at(entry, 8));
            match u64_at(entry, 0) {
                DT_NULL => break,
                DT_SYMTAB => dynamic.symbols = value,
                DT_STRTAB => dynamic.names = value,
                DT_STRSZ => dynamic.names_bytes = value,
                DT_GNU_HASH => dynamic.gnu_hash = value,
                DT_HASH => dynamic.hash = value,
                DT_SONAME => dynamic.soname = value,
                DT_RELA => dynamic.relocations = value,
                DT_RELASZ => dynamic.relocations_bytes = value,
                DT_JMPREL => dynamic.plt_relocations = value,
                DT_PLTRELSZ => dynamic.plt_relocations_bytes = value,
                _ => {}
            }
        }
        dynamic
    }
}
