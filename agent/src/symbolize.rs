//! Frames → functions and lines, from what the kernel half has sent about code objects.

use std::{collections::HashMap, num::NonZeroU32, path::Path};

use agent_common::{
    layout::LineTableFormat,
    record::{Frame, FrameKind},
};

use crate::{
    profile::{FrameKind as FunctionKind, Function, Resolved},
    python::{line_table::LineTable, text},
    record::{CodeRecord, ThreadRecord},
};

/// The code objects that were sent.
#[derive(Debug, Default)]
pub struct Symbolizer {
    code_objects: HashMap<u64, Described>,
}

/// A code object as it was sent.
#[derive(Debug)]
struct Described {
    function: Function,
    first_line: i32,
    format: LineTableFormat,
    /// The line table as far as it has come.
    line_table: Vec<u8>,
    /// The line table, decoded when the first line is asked for.
    lines: Option<LineTable>,
}

impl Symbolizer {
    /// Learns a code object.
    pub fn add(&mut self, record: &CodeRecord<'_>) {
        let first_line = u32::try_from(record.head.first_line).ok();
        let function = Function {
            name: text::decode(record.head.name, record.name),
            file: text::decode(record.head.file, record.file),
            first_line: first_line.and_then(NonZeroU32::new),
            kind: FunctionKind::Python,
        };
        let described = Described {
            function,
            first_line: record.head.first_line,
            format: record.head.line_table_format,
            line_table: record.line_table.to_vec(),
            lines: None,
        };
        self.code_objects.insert(record.head.symbol, described);
    }

    /// Learns a further piece of a line table. A piece after one that was lost is ignored: lines
    /// from there on are unknown.
    pub fn add_piece(&mut self, record: &CodeRecord<'_>) {
        let start = record.head.line_table_start as usize;
        if let Some(described) = self.code_objects.get_mut(&record.head.symbol)
            && described.line_table.len() == start
        {
            described.line_table.extend_from_slice(record.line_table);
            described.lines = None;
        }
    }

    /// The name of a thread: `threading.Thread.name` where it is one, `MainThread` for the first
    /// thread of a Python program as Python has it too, else what the kernel calls it.
    #[must_use]
    pub fn thread_name(&self, record: &ThreadRecord<'_>) -> String {
        let head = &record.head;
        let root = self.code_objects.get(&head.root);
        let is_python_thread = root.is_some_and(|root| is_thread_bootstrap(&root.function));
        if head.python.kind != 0 && is_python_thread {
            return text::decode(head.python, record.python);
        }
        if root.is_some() && head.tid == head.tgid {
            return "MainThread".to_owned();
        }
        let command = head.command.split(|byte| *byte == 0).next();
        text::decode_command(command.unwrap_or_default())
    }

    /// Puts a frame into words.
    pub fn resolve(&mut self, frame: &Frame) -> Option<Resolved> {
        if frame.kind != FrameKind::PYTHON {
            return None;
        }
        let described = self.code_objects.get_mut(&frame.symbol)?;
        let lines = described.lines.get_or_insert_with(|| {
            LineTable::new(
                described.format,
                described.first_line,
                &described.line_table,
            )
        });
        Some(Resolved {
            function: described.function.clone(),
            line: lines.line(frame.instruction_offset.cast_signed()),
        })
    }
}

/// Whether a function is the one in which every `threading.Thread` begins.
fn is_thread_bootstrap(function: &Function) -> bool {
    matches!(&*function.name, "Thread._bootstrap" | "_bootstrap")
        && Path::new(&function.file).file_name() == Some("threading.py".as_ref())
}
