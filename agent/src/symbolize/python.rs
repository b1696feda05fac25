//! Symbolizes Python frames with the code objects that the BPF programs sent.

use std::num::NonZeroU32;

use agent_common::decoded::{CodeRecord, ThreadRecord};
use agent_common::{
    layout::LineTableFormat,
    record::{Frame, FrameKind},
};

use super::symbolized::SymbolizedPythonFrame;
use crate::{
    cache::GenerationalCache,
    profile::{FrameKind as FunctionKind, Function},
    python::{line_table::LineTable, text, threading},
};

/// Cache of code objects, by the symbol that frames refer to.
#[derive(Debug, Default)]
pub struct PythonSymbolizer {
    code_objects: GenerationalCache<u64, CachedCodeObject>,
}

/// A code object as the BPF programs sent it.
#[derive(Debug)]
struct CachedCodeObject {
    function: Function,
    first_line: i32,
    format: LineTableFormat,
    /// The pieces of the line table received so far.
    line_table: Vec<u8>,
    /// The line table, decoded at the first look-up.
    lines: Option<LineTable>,
}

impl PythonSymbolizer {
    /// Adds a code object, or replaces the one with its symbol.
    pub fn add(&mut self, record: &CodeRecord<'_>) {
        let first_line = u32::try_from(record.head.first_line).ok();
        let function = Function {
            name: text::decode(record.head.name, record.name),
            file: text::decode(record.head.file, record.file),
            first_line: first_line.and_then(NonZeroU32::new),
            kind: FunctionKind::Python,
        };
        let code_object = CachedCodeObject {
            function,
            first_line: record.head.first_line,
            format: record.head.line_table_format,
            line_table: record.line_table.to_vec(),
            lines: None,
        };
        self.code_objects.insert(record.head.symbol, code_object);
    }

    /// Appends a piece of a line table. A piece after one that was lost is ignored: lines from there
    /// on are not known.
    pub fn add_piece(&mut self, record: &CodeRecord<'_>) {
        let start = record.head.line_table_start as usize;
        if let Some(code_object) = self.code_objects.get_mut(&record.head.symbol)
            && code_object.line_table.len() == start
        {
            code_object.line_table.extend_from_slice(record.line_table);
            code_object.lines = None;
        }
    }

    /// Whether a code object is in the cache.
    #[must_use]
    pub fn knows(&self, symbol: u64) -> bool {
        self.code_objects.get(&symbol).is_some()
    }

    /// The name of a thread: `threading.Thread.name` for a thread that `threading` started,
    /// `MainThread` for the first thread of a Python program, as in `threading`, else the kernel's
    /// name (`comm`).
    #[must_use]
    pub fn thread_name(&self, record: &ThreadRecord<'_>) -> String {
        let head = &record.head;
        let root = self.code_objects.get(&head.root);
        let is_python_thread = root
            .is_some_and(|root| threading::is_bootstrap(&root.function.name, &root.function.file));
        if head.python.kind != 0 && is_python_thread {
            return text::decode(head.python, record.python);
        }
        if root.is_some() && head.tid == head.tgid {
            return "MainThread".to_owned();
        }
        let command = head.comm.split(|byte| *byte == 0).next();
        text::decode_bytes(command.unwrap_or_default())
    }

    /// Evicts code objects that were not sent again, see [`GenerationalCache`].
    pub fn rotate(&mut self) {
        self.code_objects.rotate();
    }

    /// Number of cached code objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.code_objects.len()
    }

    /// Symbolizes a frame; [`None`] if its code object is not in the cache.
    pub fn symbolize(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame> {
        if frame.kind != FrameKind::PYTHON {
            return None;
        }
        let code_object = self.code_objects.get_mut(&frame.symbol)?;
        let lines = code_object.lines.get_or_insert_with(|| {
            LineTable::new(
                code_object.format,
                code_object.first_line,
                &code_object.line_table,
            )
        });
        Some(SymbolizedPythonFrame {
            function: code_object.function.clone(),
            line: lines.line(frame.instruction_offset.cast_signed()),
        })
    }
}

#[cfg(test)]
mod tests {
    use agent_common::record::{Frame, FrameKind};

    use super::PythonSymbolizer;
    use crate::symbolize::fixtures::{code, thread};

    fn line(symbolizer: &mut PythonSymbolizer, instruction_offset: u32) -> Option<u32> {
        let frame = Frame {
            symbol: 1,
            instruction_offset,
            kind: FrameKind::PYTHON,
        };
        Some(symbolizer.symbolize(&frame)?.line?.get())
    }

    #[test]
    fn a_line_table_grows_piece_by_piece() {
        let mut symbolizer = PythonSymbolizer::default();
        assert_eq!(line(&mut symbolizer, 0), None);
        symbolizer.add(&code(1, ("f", "a.py"), &[2, 1, 2, 1], 0));
        assert_eq!(line(&mut symbolizer, 2), Some(11));
        assert_eq!(line(&mut symbolizer, 8), Some(12));
        // A piece after one that was lost would give wrong lines.
        symbolizer.add_piece(&code(1, ("", ""), &[2, 40], 6));
        assert_eq!(line(&mut symbolizer, 8), Some(12));
        symbolizer.add_piece(&code(1, ("", ""), &[2, 1, 2, 1], 4));
        assert_eq!(line(&mut symbolizer, 8), Some(14));
    }

    fn thread_name(root: Option<(&str, &str)>, python: &str, tid: u32) -> String {
        let mut symbolizer = PythonSymbolizer::default();
        if let Some((name, file)) = root {
            symbolizer.add(&code(1, (name, file), &[], 0));
        }
        symbolizer.thread_name(&thread(tid, 1, python))
    }

    #[test]
    fn only_threads_of_threading_have_its_name() {
        let bootstrap = |file| Some(("Thread._bootstrap", file));
        assert_eq!(thread_name(bootstrap("/lib/threading.py"), "w-1", 8), "w-1");
        assert_eq!(
            thread_name(Some(("_bootstrap", "/lib/threading.py")), "w-1", 8),
            "w-1"
        );
        // The root frame's first variable has an attribute `_name`, but is something else.
        assert_eq!(
            thread_name(Some(("serve", "/app.py")), "blue", 8),
            "python3.12"
        );
        assert_eq!(thread_name(bootstrap("/app.py"), "blue", 8), "python3.12");
        assert_eq!(
            thread_name(Some(("<module>", "/app.py")), "", 7),
            "MainThread"
        );
        assert_eq!(thread_name(None, "", 7), "python3.12");
    }
}
