//! Code objects that frames refer to: each is read once, and turns an offset into a line.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc};

use agent_common::{
    decode::decode,
    decoded::{CodeRecord, Record},
    layout::{Layout, LineTableFormat},
    limits::LINE_TABLE_PIECES,
    maps::CodeIdentity,
    memory::{Fault, UserAddr, UserMemory},
    python::{CodeObjectRecord, CodeSymbol, SymbolLookup, read_identity},
    scratch::Scratch,
};

use super::{Frame, Function};
use crate::python::{line_table::LineTable, text};

/// Hashes identify code objects within one reading only.
pub(super) const SEED: u64 = 0;

/// The code objects of one reading.
#[derive(Default)]
pub(super) struct CodeObjects {
    description: Box<CodeObjectRecord>,
    pub(super) known: KnownCode,
    described: HashMap<u64, Described>,
}

/// A code object that was read.
struct Described {
    function: Arc<Function>,
    format: LineTableFormat,
    first_line: i32,
    line_table: Vec<u8>,
    lines: Option<LineTable>,
}

impl CodeObjects {
    /// Describes the code object at `code`, unless it is known.
    ///
    /// # Errors
    ///
    /// When it cannot be read: it has no name then.
    pub(super) fn describe<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Result<CodeSymbol, Fault> {
        let head = read_identity(memory, scratch, layout, code)?;
        if let Some((of, symbol)) = self.known.0.get(&code)
            && *of == head
        {
            return Ok(*symbol);
        }
        let description = &mut self.description;
        description.read(memory, scratch, layout, &head)?;
        let symbol = description.finish_record(SEED);
        if !self.described.contains_key(&symbol)
            && let Ok(Record::CodeObject(record)) = decode(description.record())
        {
            let mut described = Described::new(&record);
            let table = UserAddr(head.line_table).field(layout.text.bytes_data);
            for _ in 0..LINE_TABLE_PIECES {
                let start = u32::try_from(described.line_table.len()).map_err(|_| Fault)?;
                let from = UserAddr(table.0.wrapping_add(start.into()));
                if description.read_line_table_piece(memory, from, start)? == 0 {
                    break;
                }
                if let Ok(Record::LineTablePiece(record)) = decode(description.record()) {
                    described.line_table.extend_from_slice(record.line_table);
                }
            }
            self.described.insert(symbol, described);
        }
        let symbol = CodeSymbol {
            hash: symbol,
            first_traceable_bytes: head.first_traceable_bytes,
        };
        self.known.0.insert(code, (head, symbol));
        Ok(symbol)
    }

    /// A frame whose code object has this symbol, at the instruction `offset` bytes into the bytecode.
    pub(super) fn frame(&mut self, symbol: u64, offset: i32) -> Frame {
        match self.described.get_mut(&symbol) {
            Some(described) => Frame {
                function: Some(Arc::clone(&described.function)),
                line: described.line(offset),
            },
            None => Frame {
                function: None,
                line: None,
            },
        }
    }
}

impl Described {
    fn new(record: &CodeRecord<'_>) -> Self {
        let first_line = record.head.first_line;
        let function = Function {
            name: text::decode(record.head.name, record.name),
            file: text::decode(record.head.file, record.file),
            first_line: u32::try_from(first_line).ok().and_then(NonZeroU32::new),
        };
        Self {
            function: Arc::new(function),
            format: record.head.line_table_format,
            first_line,
            line_table: record.line_table.to_vec(),
            lines: None,
        }
    }

    /// The line of the instruction `offset` bytes into the bytecode.
    fn line(&mut self, offset: i32) -> Option<NonZeroU32> {
        self.lines
            .get_or_insert_with(|| LineTable::new(self.format, self.first_line, &self.line_table))
            .line(offset)
    }
}

/// The code objects that were described, with their heads.
#[derive(Default)]
pub(super) struct KnownCode(HashMap<UserAddr, (CodeIdentity, CodeSymbol)>);

impl KnownCode {
    /// The symbol of the code object at this address when it was described.
    pub(super) fn get(&self, code: UserAddr) -> Option<CodeSymbol> {
        self.0.get(&code).map(|(_, symbol)| *symbol)
    }
}

impl SymbolLookup for KnownCode {
    fn symbol<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<CodeSymbol> {
        let (known, symbol) = self.0.get(&code)?;
        // The process runs on: another code object may be there by now.
        let head = read_identity(memory, scratch, layout, code).ok()?;
        (head == *known).then_some(*symbol)
    }
}
