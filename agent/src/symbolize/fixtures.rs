//! Records of code objects and of names of threads, for tests.

use agent_common::{
    decoded::{CodeRecord, ThreadRecord},
    layout::LineTableFormat,
    record::{CodeObjectHead, Header, RecordKind, Text, ThreadName},
};

/// What is not read of a record that is decoded.
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

/// A code object whose first line is 10, or a piece of its line table from `start` on.
pub(crate) fn code<'a>(
    symbol: u64,
    (name, file): (&'a str, &'a str),
    table: &'a [u8],
    start: u32,
) -> CodeRecord<'a> {
    CodeRecord {
        head: CodeObjectHead {
            header: HEADER,
            symbol,
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

/// The name of a thread of process 7, with a complete stack where it has a `root`.
pub(crate) fn thread(tid: u32, root: u64, python: &str) -> ThreadRecord<'_> {
    ThreadRecord {
        head: ThreadName {
            header: HEADER,
            tgid: 7,
            tid,
            root,
            comm: *b"python3.12\0\0\0\0\0\0",
            python: text(python),
            is_complete: u32::from(root != 0),
        },
        python: python.as_bytes(),
    }
}
