//! Decodes text that the BPF programs copied out of Python strings, and escapes it for display.
//!
//! Invariant: the result has no control character and no line break, so that it cannot break an
//! output format or a terminal; all other characters are unchanged.

use std::fmt::Write as _;

use agent_common::record::Text;

/// Decodes the characters that `text` describes; the result of a truncated text ends in `…`.
///
/// Lone surrogates, which Python uses for file names that are not UTF-8, are escaped as in Python
/// (`\udc80`).
#[must_use]
pub fn decode(text: Text, bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(text.bytes.into())];
    let mut decoded = String::with_capacity(bytes.len());
    match text.kind {
        1 => bytes
            .iter()
            .for_each(|&byte| push(&mut decoded, byte.into())),
        2 => {
            let (characters, _) = bytes.as_chunks();
            for &character in characters {
                push(&mut decoded, u16::from_le_bytes(character).into());
            }
        }
        4 => {
            let (characters, _) = bytes.as_chunks();
            for &character in characters {
                push(&mut decoded, u32::from_le_bytes(character));
            }
        }
        Text::BYTES if text.truncated != 0 => {
            decoded = decode_bytes(without_truncated_character(bytes));
        }
        Text::BYTES => decoded = decode_bytes(bytes),
        _ => {}
    }
    if text.truncated != 0 {
        decoded.push('…');
    }
    decoded
}

/// Decodes bytes as UTF-8, with U+FFFD for what is not: names in Python 2, names of threads.
#[must_use]
pub fn decode_bytes(bytes: &[u8]) -> String {
    let mut decoded = String::with_capacity(bytes.len());
    for character in String::from_utf8_lossy(bytes).chars() {
        push(&mut decoded, character.into());
    }
    decoded
}

/// The bytes without an incomplete character at their end.
fn without_truncated_character(bytes: &[u8]) -> &[u8] {
    let invalid = bytes
        .utf8_chunks()
        .last()
        .map_or(&[][..], |end| end.invalid());
    match str::from_utf8(invalid) {
        Err(error) if error.error_len().is_none() => &bytes[..bytes.len() - invalid.len()],
        _ => bytes,
    }
}

/// Appends a code point, escaped where necessary.
fn push(decoded: &mut String, code_point: u32) {
    // Writing to a string cannot fail.
    let _ = match char::from_u32(code_point) {
        Some('\n') => decoded.write_str("\\n"),
        Some('\r') => decoded.write_str("\\r"),
        Some('\t') => decoded.write_str("\\t"),
        Some(character) if !needs_escape(character) => decoded.write_char(character),
        _ if code_point <= 0xff => write!(decoded, "\\x{code_point:02x}"),
        _ if code_point <= 0xffff => write!(decoded, "\\u{code_point:04x}"),
        _ => write!(decoded, "\\U{code_point:08x}"),
    };
}

/// Whether a character ends a line, controls a terminal or changes the direction of text.
fn needs_escape(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::decode;
    use agent_common::record::Text;
    use proptest::prelude::{any, proptest};

    fn text(kind: u8, bytes: &[u8]) -> Text {
        Text {
            kind,
            truncated: 0,
            bytes: bytes.len().try_into().unwrap(),
        }
    }

    fn decode_wide(characters: &[u16]) -> String {
        let bytes: Vec<u8> = characters
            .iter()
            .flat_map(|character| character.to_le_bytes())
            .collect();
        decode(text(2, &bytes), &bytes)
    }

    #[test]
    fn all_widths_are_decoded() {
        assert_eq!(decode(text(1, b"Caf\xe9.run"), b"Caf\xe9.run"), "Café.run");
        assert_eq!(decode_wide(&[0x4f60, 0x2e, 0x597d]), "你.好");
        let wide: Vec<u8> = ['𝒙', 'y']
            .iter()
            .flat_map(|&character| u32::from(character).to_le_bytes())
            .collect();
        assert_eq!(decode(text(4, &wide), &wide), "𝒙y");
    }

    #[test]
    fn bytes_are_decoded_as_utf_8() {
        let bytes = "Größe_日本".as_bytes();
        assert_eq!(decode(text(Text::BYTES, bytes), bytes), "Größe_日本");
        // Of other encodings, such as Latin-1, only ASCII can be decoded.
        let bytes = b"Gr\xf6\xdfe";
        assert_eq!(
            decode(text(Text::BYTES, bytes), bytes),
            "Gr\u{fffd}\u{fffd}e"
        );
        let bytes = b"a\nb\x1b[31m\xe2\x80\xae\x00";
        assert_eq!(
            decode(text(Text::BYTES, bytes), bytes),
            "a\\nb\\x1b[31m\\u202e\\x00"
        );
    }

    #[test]
    fn an_incomplete_character_at_the_end_is_dropped() {
        let bytes = "tür".as_bytes();
        let truncated = Text {
            kind: Text::BYTES,
            truncated: 1,
            bytes: 2,
        };
        assert_eq!(decode(truncated, bytes), "t…");
        // Only an incomplete end is dropped: what is not UTF-8 elsewhere is replaced.
        let truncated = Text {
            bytes: 3,
            ..truncated
        };
        assert_eq!(decode(truncated, b"\xffab"), "\u{fffd}ab…");
        assert_eq!(decode(truncated, b"ab\xff"), "ab\u{fffd}…");
    }

    #[test]
    fn two_surrogates_are_not_a_pair() {
        assert_eq!(
            decode_wide(&[0xd835, 0xdc99, 0xdc80]),
            "\\ud835\\udc99\\udc80"
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let bytes = b"a\nb\rc\td\x1b[31m\0\x7f\x85";
        assert_eq!(
            decode(text(1, bytes), bytes),
            "a\\nb\\rc\\td\\x1b[31m\\x00\\x7f\\x85"
        );
        assert_eq!(decode_wide(&[0x2028, 0x202e]), "\\u2028\\u202e");
        assert_eq!(decode(text(1, b"C:\\new"), b"C:\\new"), "C:\\new");
        let beyond = 0x11_0000_u32.to_le_bytes();
        assert_eq!(decode(text(4, &beyond), &beyond), "\\U00110000");
    }

    #[test]
    fn truncation_is_marked_and_padding_is_dropped() {
        let truncated = Text {
            kind: 1,
            truncated: 1,
            bytes: 3,
        };
        assert_eq!(decode(truncated, b"abc\0\0\0\0\0"), "abc…");
        assert_eq!(decode(Text::default(), b""), "");
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(
            kind in any::<u8>(), truncated in any::<u8>(), bytes in any::<u16>(), payload in any::<Vec<u8>>()
        ) {
            let decoded = decode(Text { kind: kind % 6, truncated, bytes }, &payload);
            assert!(!decoded.chars().any(char::is_control));
        }
    }
}
