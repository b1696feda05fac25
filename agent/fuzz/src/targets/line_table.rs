//! Line tables and texts of Python.

use agent::testing::python::{line_table::LineTable, text};
use agent_common::{layout::LineTableFormat, record::Text};

use crate::input::Input;

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (format, kind, truncated) = (input.byte() % 6, input.byte() % 6, input.byte() & 1);
    let first_line = input.number().cast_signed();
    let rest = input.rest();
    let table = LineTable::new(LineTableFormat(format.into()), first_line, rest);
    for offset in [-1, 0, 1, 2, 100, 5000, i32::MAX, i32::MIN] {
        let _ = table.line(offset);
    }
    let name = Text {
        kind,
        truncated,
        bytes: u16::try_from(rest.len()).unwrap_or(u16::MAX),
    };
    let decoded = text::decode(name, rest);
    assert!(!decoded.chars().any(char::is_control));
    assert!(!text::decode_bytes(rest).chars().any(char::is_control));
}
