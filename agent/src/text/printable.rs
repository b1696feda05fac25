//! Names of another process as one line of text.
//!
//! Invariant: what comes out has no character that could end a line, steer a terminal, turn the
//! direction of writing or be forbidden in XML.

use std::borrow::Cow;

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
}
