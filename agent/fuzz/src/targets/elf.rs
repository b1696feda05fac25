//! A whole file: headers, sections, segments, notes, USDT probes, dynamic section, PLT and symbol tables.

use agent::testing::binaries::{
    elf::{Elf, Which},
    probe_points,
};

/// Most functions of a table that are named.
const FUNCTIONS: usize = 64;

pub(super) fn run(bytes: &[u8]) {
    let Ok(elf) = Elf::read(bytes) else {
        return;
    };
    let _ = elf.build_id();
    let _ = elf.soname();
    let _ = elf.frame_header();
    for name in ["main", "_PyRuntime", "PyEval_EvalFrameEx"] {
        let _ = elf.section(name);
        let _ = elf.exported_symbol(name);
        let _ = elf.symbol(name);
        let _ = elf.symbols_with_prefix(name);
    }
    if let Ok(stubs) = elf.plt_stubs() {
        assert!(stubs.is_sorted_by_key(|stub| stub.address));
        for stub in stubs.iter().take(FUNCTIONS) {
            let _ = elf.plt_name(stub);
        }
    }
    for which in [Which::All, Which::Exported] {
        let Some(table) = elf.symbol_table(which) else {
            continue;
        };
        let mut functions = Vec::new();
        let _ = elf.functions(&table, |function| {
            if functions.len() < FUNCTIONS {
                functions.push(function);
            }
        });
        for function in functions {
            let _ = elf.function_name(&table, function.name);
            let _ = elf.segments().file_offset(function.address, 1);
            let _ = elf.initial_bytes(function.address, &mut [0; 16]);
            let _ = elf.loaded_from(function.address, 1 << 16);
        }
    }
    let _ = probe_points::announced(&elf);
    let _ = probe_points::allocating(&elf, "libc.so.6");
    for range in elf.segments().code() {
        assert!(range.start <= range.end);
    }
    let _ = elf.find_in_data([0; 8], 1 << 20);
    let _ = elf.scan_constants(18, 1 << 20, |_| ());
    let _ = elf.scan_section(".rodata", 3, 1 << 20, |_| ());
    if let Ok(Some(embedded)) = elf.embedded() {
        let _ = embedded.build_id();
    }
}
