//! Whole files in which CPython is searched: version, layout, debug offsets, evaluation loop.

use agent::testing::{
    binaries::elf::Elf,
    python::{
        evaluation_loop,
        inspect::{SymbolScope, inspect},
        layouts::LayoutSources,
    },
};

pub(super) fn run(bytes: &[u8]) {
    let Ok(elf) = Elf::read(bytes) else {
        return;
    };
    for scope in [SymbolScope::All, SymbolScope::Exported] {
        let none = |_: &Elf<&[u8]>| None::<Elf<&[u8]>>;
        let _ = inspect(&elf, "libpython3.13.so.1.0", scope, LayoutSources::default(), none);
    }
    if let Ok(ranges) = evaluation_loop::ranges(&elf) {
        assert!(ranges.is_sorted_by_key(|range| range.start));
    }
}
