//! Strings as Python's `repr` writes them.
//!
//! Which characters are printable is by the Unicode of the agent, which may be newer than that of the interpreter.

use super::output::Output;

/// Text of these code points, of which there may be more; [`false`] where one is none.
pub(super) fn write_text(output: &mut Output, characters: &[u32], prefix: &str) -> bool {
    let quote = quote(|wanted| characters.contains(&u32::from(wanted)));
    output.push_str(prefix);
    output.push(quote);
    for &code_point in characters {
        match char::from_u32(code_point) {
            Some(character) => write_character(output, character, quote),
            // A surrogate.
            None if code_point <= 0xffff => output.push_str(&format!("\\u{code_point:04x}")),
            None => return false,
        }
    }
    output.push(quote);
    true
}

/// Bytes, of which there may be more.
pub(super) fn write_bytes(output: &mut Output, bytes: &[u8], prefix: &str) {
    let quote = quote(|wanted| bytes.contains(&(wanted as u8)));
    output.push_str(prefix);
    output.push(quote);
    for &byte in bytes {
        if byte.is_ascii() {
            write_character(output, byte.into(), quote);
        } else {
            output.push_str(&format!("\\x{byte:02x}"));
        }
    }
    output.push(quote);
}

/// The quotation mark around a string.
fn quote(contains: impl Fn(char) -> bool) -> char {
    if contains('\'') && !contains('"') {
        '"'
    } else {
        '\''
    }
}

fn write_character(output: &mut Output, character: char, quote: char) {
    match character {
        '\n' => output.push_str("\\n"),
        '\r' => output.push_str("\\r"),
        '\t' => output.push_str("\\t"),
        '\\' => output.push_str("\\\\"),
        character if character == quote => {
            output.push('\\');
            output.push(quote);
        }
        character if is_printable(character) => output.push(character),
        character => output.push_str(&match u32::from(character) {
            code_point @ ..=0xff => format!("\\x{code_point:02x}"),
            code_point @ ..=0xffff => format!("\\u{code_point:04x}"),
            code_point => format!("\\U{code_point:08x}"),
        }),
    }
}

/// Whether a character is neither a control nor a separator, and is assigned.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // Behind another character, where combining ones are printable.
    let escaped = format!("a{character}");
    escaped.escape_debug().nth(1) != Some('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(characters: &str) -> String {
        let mut output = Output::new(100);
        let characters: Vec<u32> = characters.chars().map(u32::from).collect();
        assert!(write_text(&mut output, &characters, ""));
        output.finish()
    }

    #[test]
    fn text_is_escaped_as_by_repr() {
        assert_eq!(text("a'b"), r#""a'b""#);
        assert_eq!(text("a'b\"\\"), r#"'a\'b"\\'"#);
        assert_eq!(text("\n\t\r\0\u{7f}\u{a0}é"), r"'\n\t\r\x00\x7f\xa0é'");
        assert_eq!(text("\u{202e}日\u{301}"), "'\\u202e日\u{301}'");
        assert_eq!(text("\u{e0001}😀"), r"'\U000e0001😀'");
        let mut output = Output::new(100);
        assert!(write_text(&mut output, &[0xd800], "u"));
        assert!(!write_text(&mut output, &[0x11_0000], ""));
        assert!(output.finish().starts_with(r"u'\ud800'"));
    }

    #[test]
    fn bytes_are_escaped_as_by_repr() {
        let mut output = Output::new(100);
        write_bytes(&mut output, b"a\xff'\n", "b");
        assert_eq!(output.finish(), r#"b"a\xff'\n""#);
    }
}
