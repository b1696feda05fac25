//! Names of another process as one line of text.
//!
//! Invariant: what comes out has no character that could end a line, steer a terminal, turn the
//! direction of writing or be forbidden in XML.

use std::{borrow::Cow, fmt::Write as _};

use crate::profile::{FrameKind, Function, Line, Process, Profile, Thread};

/// `text` with every character that is not for showing written as Rust and Python would.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_unprintable(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// A place as `py-spy` writes it: `name (file:line)`, fit to be a frame of a folded stack.
#[must_use]
pub fn frame(profile: &Profile, line: Line) -> String {
    let Function {
        name, file, kind, ..
    } = profile.function(line.function);
    let mut text = folded(name);
    if *kind == FrameKind::Marker {
        return text;
    }
    // With the parentheses a frame cannot end in what reads as a count.
    let file = folded(file);
    let _ = match line.line {
        Some(line) => write!(text, " ({file}:{line})"),
        None => write!(text, " ({file})"),
    };
    text
}

/// A thread as a frame of a folded stack.
#[must_use]
pub fn thread_frame(thread: &Thread) -> String {
    format!("{} ({})", folded(&thread.name), thread.tid)
}

/// A process as a frame of a folded stack.
#[must_use]
pub fn process_frame(process: &Process) -> String {
    format!("{} ({})", folded(&process.name), process.pid)
}

/// `text` as a part of a folded stack: without `;`, which parts frames and becomes `:` as in
/// `stackcollapse-perf.pl`, without `#` in front, which begins a comment, and never empty.
fn folded(text: &str) -> String {
    let text = printable(text.trim()).replace(';', ":");
    match text.chars().next() {
        None => "?".to_owned(),
        Some('#') => format!("\\{text}"),
        Some(_) => text,
    }
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Line and paragraph separators, and what turns the direction of writing.
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Not characters, and not allowed in XML.
            | '\u{fffe}' | '\u{ffff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_names_stay() {
        for name in ["<module>", "größe", "日本", "a b", ""] {
            assert_eq!(printable(name), name);
        }
    }

    #[test]
    fn characters_that_are_not_for_showing_are_escaped() {
        assert_eq!(printable("a\nb\t\x1b[31m"), r"a\nb\t\u{1b}[31m");
        assert_eq!(printable("a\u{202e}b\u{ffff}"), r"a\u{202e}b\u{ffff}");
    }

    #[test]
    fn a_frame_cannot_break_a_folded_line() {
        assert_eq!(folded("a;b"), "a:b");
        assert_eq!(folded(" a b  "), "a b");
        assert_eq!(folded("\u{a0}a\n"), "a");
        assert_eq!(folded("# a"), r"\# a");
        assert_eq!(folded("  "), "?");
    }
}
