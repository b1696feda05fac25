//! The functions, files and lines at an address, with the functions that are inlined there.
//!
//! A table of values has, for each instruction, the index of the innermost inlined call in the
//! function's inline tree, which is read-only data outside of the table of functions. Each call has
//! the address of an instruction whose line is that of the call.

use super::{
    function::GoFunction,
    table::{GoTable, InlineTrees},
};
use crate::binaries::elf::{file::Elf, numbers::u32_at, source::Source};

/// Most bytes of a path.
const MAX_PATH: usize = 4096;

/// Most levels of inlining.
const MAX_DEPTH: usize = 128;

/// Most values of a function that are searched for an address.
const MAX_VALUES: usize = 1 << 18;

/// Most calls in an inline tree.
const MAX_CALLS: u32 = 1 << 20;

/// `PCDATA_InlTreeIndex`.
const INLINE_INDEX: u32 = 2;

/// `FUNCDATA_InlTree`.
const INLINE_TREE: u32 = 3;

/// A function at an address, and the line in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoLine {
    /// Name with its package.
    pub name: Vec<u8>,
    /// Path of the source file.
    pub file: Option<Vec<u8>>,
    /// Line in that file, 0 where there is none.
    pub line: u32,
}

/// An inlined call.
struct InlinedCall {
    name: u32,
    /// Address of an instruction with the line of the call, relative to the function's start.
    parent: u32,
}

impl<S: Source> GoTable<S> {
    /// Whether the files, lines and inlined functions of its functions are known.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        self.inline_trees.is_some()
    }
}

impl<S: Source> GoFunction<'_, S> {
    /// The functions at `address`, the innermost first and this one at the end; `elf` is the file of
    /// the table.
    #[must_use]
    pub fn lines<E: Source>(&self, elf: &Elf<E>, address: u64) -> Vec<GoLine> {
        let tree = self.inline_tree();
        let mut found = Vec::new();
        let mut address = address;
        while found.len() < MAX_DEPTH
            && let Some(tree) = tree
            && let Some(call) = self.inlined_call(elf, tree, address)
        {
            found.push(self.line(self.name_at(call.name), address));
            address = self.start.saturating_add(call.parent.into());
        }
        found.push(self.line(self.name(), address));
        found
    }

    /// The function `name` at the line of `address`.
    fn line(&self, name: Vec<u8>, address: u64) -> GoLine {
        let line = self.values(self.number(6)).at(address, MAX_VALUES);
        let line = line.and_then(|line| u32::try_from(line).ok());
        let file = self.values(self.number(5)).at(address, MAX_VALUES);
        let file = file.and_then(|file| u32::try_from(file).ok());
        GoLine {
            name,
            file: line.and(file).and_then(|file| self.path(file)),
            line: file.and(line).unwrap_or(0),
        }
    }

    /// The path of a file of the function's compilation unit.
    fn path(&self, file: u32) -> Option<Vec<u8>> {
        let (units, paths) = self.table.files?;
        let index = u64::from(self.number(8)) + u64::from(file);
        let offset = self.table.pages.u32(units.saturating_add(4 * index));
        let at = paths.checked_add(offset.into())?;
        let path = (offset != u32::MAX).then(|| self.table.pages.text(at, MAX_PATH))?;
        (!path.is_empty()).then_some(path)
    }

    /// The address of its inline tree.
    fn inline_tree(&self) -> Option<u64> {
        let trees = self.table.inline_trees?;
        // Behind the flags are a byte of padding, and the number of these data.
        let flags = self.table.format.flags?;
        let count = u32::from(self.byte(flags + 2));
        if count <= INLINE_TREE {
            return None;
        }
        let data = flags + 3 + 4 * u64::from(self.number(7));
        let at = self.at.checked_add(data)?;
        match trees {
            InlineTrees::RelativeTo(base) => {
                let offset = self
                    .table
                    .pages
                    .u32(at.checked_add(4 * u64::from(INLINE_TREE))?);
                (offset != u32::MAX).then(|| base.checked_add(offset.into()))?
            }
            InlineTrees::Absolute => {
                let at = at.checked_next_multiple_of(8)?;
                let address = self
                    .table
                    .pages
                    .u64(at.checked_add(8 * u64::from(INLINE_TREE))?);
                (address != 0).then_some(address)
            }
        }
    }

    /// The innermost call that is inlined at `address`.
    fn inlined_call<E: Source>(
        &self,
        elf: &Elf<E>,
        tree: u64,
        address: u64,
    ) -> Option<InlinedCall> {
        // The offsets of these values follow the fields of the entry.
        let values = self.table.format.flags? + 3 + 4 * u64::from(INLINE_INDEX);
        if self.number(7) <= INLINE_INDEX {
            return None;
        }
        let offset = self.table.pages.u32(self.at.checked_add(values)?);
        let index = self.values(offset).at(address, MAX_VALUES)?;
        let index = u32::try_from(index).ok().filter(|it| *it < MAX_CALLS)?;
        let format = &self.table.format;
        let mut call = [0; 20];
        let call = call.get_mut(..format.call_bytes)?;
        let at = tree.checked_add(u64::from(index) * call.len() as u64)?;
        if !elf.initial_bytes(at, call).unwrap_or(false) {
            return None;
        }
        Some(InlinedCall {
            name: u32_at(call, format.call_name),
            parent: u32_at(call, format.call_name + 4),
        })
    }
}
