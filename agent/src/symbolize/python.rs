//! Frames of Python → functions and lines, from what the kernel half has sent about code objects.

use std::num::NonZeroU32;

use agent_common::{
    layout::LineTableFormat,
    record::{Frame, FrameKind},
};

use crate::{
    generations::Generations,
    profile::{FrameKind as FunctionKind, Function, Resolved},
    python::{line_table::LineTable, text, threading},
    record::{CodeRecord, ThreadRecord},
};

/// The code objects that were sent.
#[derive(Debug, Default)]
pub struct Symbolizer {
    code_objects: Generations<u64, Described>,
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

    /// Forgets the code objects that were not sent again for long, see [`Generations`].
    pub fn advance(&mut self) {
        self.code_objects.advance();
    }

    /// How many code objects are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.code_objects.len()
    }

    /// Whether no code object is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.code_objects.is_empty()
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

#[cfg(test)]
mod tests {
    use agent_common::{
        layout::LineTableFormat,
        record::{CodeObjectHead, Frame, FrameKind, Header, RecordKind, Text, ThreadName},
    };

    use super::Symbolizer;
    use crate::record::{CodeRecord, ThreadRecord};

    const HEADER: Header = Header {
        kind: RecordKind::CODE_OBJECT,
        reserved: 0,
        bytes: 0,
    };

    fn text(text: &str) -> Text {
        Text {
            kind: 1,
            truncated: 0,
            bytes: u16::try_from(text.len()).unwrap(),
        }
    }

    /// A code object that begins in line 10, or a piece of its table from `start` on.
    fn code<'a>(name: &'a str, file: &'a str, table: &'a [u8], start: u32) -> CodeRecord<'a> {
        CodeRecord {
            head: CodeObjectHead {
                header: HEADER,
                symbol: 1,
                first_line: 10,
                line_table_bytes: 8,
                line_table_start: start,
                name: text(name),
                file: text(file),
                line_table_format: LineTableFormat::LNOTAB,
                reserved: 0,
            },
            name: name.as_bytes(),
            file: file.as_bytes(),
            line_table: table,
        }
    }

    fn line(symbolizer: &mut Symbolizer, instruction_offset: u32) -> Option<u32> {
        let frame = Frame {
            symbol: 1,
            instruction_offset,
            kind: FrameKind::PYTHON,
        };
        Some(symbolizer.resolve(&frame)?.line?.get())
    }

    #[test]
    fn a_line_table_grows_piece_by_piece() {
        let mut symbolizer = Symbolizer::default();
        assert_eq!(line(&mut symbolizer, 0), None);
        symbolizer.add(&code("f", "a.py", &[2, 1, 2, 1], 0));
        assert_eq!(line(&mut symbolizer, 2), Some(11));
        assert_eq!(line(&mut symbolizer, 8), Some(12));
        // A piece after one that was lost would put lines where they are not.
        symbolizer.add_piece(&code("", "", &[2, 40], 6));
        assert_eq!(line(&mut symbolizer, 8), Some(12));
        symbolizer.add_piece(&code("", "", &[2, 1, 2, 1], 4));
        assert_eq!(line(&mut symbolizer, 8), Some(14));
    }

    fn thread_name(root: Option<(&str, &str)>, python: &str, tid: u32) -> String {
        let mut symbolizer = Symbolizer::default();
        if let Some((name, file)) = root {
            symbolizer.add(&code(name, file, &[], 0));
        }
        let record = ThreadRecord {
            head: ThreadName {
                header: HEADER,
                tgid: 7,
                tid,
                root: 1,
                comm: *b"python3.12\0\0\0\0\0\0",
                python: text(python),
                reserved: 0,
            },
            python: python.as_bytes(),
        };
        symbolizer.thread_name(&record)
    }

    #[test]
    fn only_a_thread_of_threading_has_the_name_of_one() {
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
