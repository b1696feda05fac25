//! Functions, files and lines of Go code, from the Go linker's table of functions.
//!
//! The table has all that debugging information has about lines and inlined functions, is there in
//! stripped files too, and is never compressed.

use std::num::NonZeroU32;

use super::lookup::SymbolFrame;
use crate::{
    binaries::elf::{Elf, GoLine, GoTable, Shared},
    python::text,
    symbolize::demangle,
};

/// The Go functions of a file.
pub(super) struct GoFunctions {
    elf: Elf<Shared>,
    table: GoTable<Shared>,
}

impl GoFunctions {
    /// [`None`] where the file has none, or the table is malformed.
    pub(super) fn read(elf: &Elf<Shared>) -> Option<Self> {
        let table = elf.go_lines().ok().flatten()?;
        Some(Self {
            elf: elf.clone(),
            table,
        })
    }

    /// The name of the function that contains `address`.
    pub(super) fn name(&self, address: u64) -> Option<String> {
        let name = self.table.function(address)?.name();
        (!name.is_empty()).then(|| demangle::go_name(&name))
    }

    /// The functions at `address`, the innermost first; none where it is in no Go function, and where
    /// the table's lines cannot be read.
    pub(super) fn lines(&self, address: u64) -> Option<Vec<SymbolFrame>> {
        let function = self.table.function(address)?;
        if !self.table.has_lines() {
            return None;
        }
        let lines = function.lines(&self.elf, address);
        Some(lines.iter().map(frame).collect())
    }

    /// Approximate bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Frees what can be read again.
    pub(super) fn free_pages(&self) {
        self.table.free_pages();
    }
}

fn frame(line: &GoLine) -> SymbolFrame {
    SymbolFrame {
        name: demangle::go_name(&line.name),
        file: line.file.as_deref().map(text::decode_bytes),
        line: NonZeroU32::new(line.line),
        first_line: None,
    }
}
