//! A frame as text.

use std::fmt;

use super::{
    colours::Colours,
    frames::{DumpedFrame, DumpedKind, DumpedVariables},
};
use crate::text::{printable, shortened};

/// Columns of a source line.
const SOURCE_WIDTH: usize = 100;

/// Writes a frame, and its source line if that is known, with `indent` before each.
pub(super) fn write_frame(
    formatter: &mut fmt::Formatter<'_>,
    frame: &DumpedFrame,
    indent: &str,
    colours: Colours,
) -> fmt::Result {
    let text = frame_text(frame);
    if frame.kind == DumpedKind::Python {
        writeln!(formatter, "{indent}{text}")?;
    } else {
        writeln!(
            formatter,
            "{indent}{}{text}{}",
            colours.dim(),
            colours.end()
        )?;
    }
    if let Some(source) = &frame.source {
        let source = source.replace('\t', " ");
        let source = printable(&source);
        let source = shortened(&source, SOURCE_WIDTH);
        let (dim, end) = (colours.dim(), colours.end());
        writeln!(formatter, "{indent}    {dim}{source}{end}")?;
    }
    write_variables(formatter, &frame.variables, indent)
}

/// Writes arguments and local variables, as `py-spy dump --locals` has them.
fn write_variables(
    formatter: &mut fmt::Formatter<'_>,
    variables: &DumpedVariables,
    indent: &str,
) -> fmt::Result {
    let parts = [
        ("Arguments", &variables.arguments),
        ("Locals", &variables.locals),
    ];
    for (title, part) in parts {
        let part = part.as_deref().unwrap_or_default();
        if !part.is_empty() {
            writeln!(formatter, "{indent}    {title}:")?;
        }
        for variable in part {
            let (name, value) = (printable(&variable.name), printable(&variable.value));
            writeln!(formatter, "{indent}        {name}: {value}")?;
        }
    }
    match variables.variables_left_out {
        0 => Ok(()),
        more => writeln!(formatter, "{indent}        … {more} more"),
    }
}

/// For example `fib (app.py:7)` or `list_sort (python3.12)`.
fn frame_text(frame: &DumpedFrame) -> String {
    let executable = printable(frame.executable.as_deref().unwrap_or("?"));
    let Some(function) = frame.function.as_deref() else {
        let address = frame.address.as_deref().unwrap_or("0x0");
        return match &*executable {
            "[jit]" => executable.into_owned(),
            executable => format!("{executable}+{address}"),
        };
    };
    let function = printable(function);
    match (frame.kind, &frame.file, frame.line) {
        (DumpedKind::Python, Some(file), Some(line)) => {
            format!("{function} ({}:{line})", printable(file))
        }
        (DumpedKind::Python, Some(file), None) => format!("{function} ({})", printable(file)),
        (DumpedKind::Native | DumpedKind::Kernel, ..) if function != executable => {
            format!("{function} ({executable})")
        }
        _ => function.into_owned(),
    }
}
