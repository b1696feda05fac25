//! Untrusted text on one line.
//!
//! Invariant: the result has no character that ends a line, controls a terminal, changes the writing
//! direction or is forbidden in XML.

use std::borrow::Cow;

/// `text` with unprintable characters escaped as in Rust and Python.
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

/// `text`, which may have several lines, with unprintable characters escaped in each.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Line and paragraph separators, and controls of the writing direction.
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Noncharacters, forbidden in XML.
            | '\u{fffe}' | '\u{ffff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_names_are_unchanged() {
        for name in ["<module>", "größe", "日本", "a b", ""] {
            assert_eq!(printable(name), name);
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(
            printable_lines("a\x1b[2J\n  b\r\n"),
            "a\\u{1b}[2J\n  b\\r\n"
        );
    }

    #[test]
    fn unprintable_characters_are_escaped() {
        assert_eq!(printable("a\nb\t\x1b[31m"), r"a\nb\t\u{1b}[31m");
        assert_eq!(printable("a\u{202e}b\u{ffff}"), r"a\u{202e}b\u{ffff}");
    }
}
