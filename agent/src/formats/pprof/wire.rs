//! Iterates over the fields of a protobuf message without decoding it as a whole.
//!
//! Invariant: for any bytes, each step consumes at least one byte or is the last.

/// The fields of a message: numbers and values.
#[derive(Clone)]
pub(super) struct Fields<'a>(&'a [u8]);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValue<'a> {
    /// A number.
    Number(u64),
    /// A string, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A number of four or eight bytes; pprof has none.
    Fixed,
}

/// The bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedMessage;

impl<'a> Fields<'a> {
    /// The fields of a message.
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The strings or messages of a repeated field.
    pub(super) fn all(self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.filter_map(move |field| match field {
            Ok((found, FieldValue::Bytes(bytes))) if found == number => Some(bytes),
            _ => None,
        })
    }

    fn next_field(&mut self) -> Option<(u64, FieldValue<'a>)> {
        let key = number(&mut self.0)?;
        let value = match key & 7 {
            0 => FieldValue::Number(number(&mut self.0)?),
            1 => self.fixed(8)?,
            2 => {
                let length = usize::try_from(number(&mut self.0)?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                FieldValue::Bytes(bytes)
            }
            5 => self.fixed(4)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn fixed(&mut self, bytes: usize) -> Option<FieldValue<'a>> {
        self.0 = self.0.get(bytes..)?;
        Some(FieldValue::Fixed)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, FieldValue<'a>), MalformedMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(MalformedMessage))
    }
}

/// Decodes a varint from the front of `bytes`.
pub(super) fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_decoded() {
        let message = [
            0x08, 0x96, 0x01, 0x12, 2, b'a', b'b', 0x1d, 1, 2, 3, 4, 0x12, 0,
        ];
        let fields: Result<Vec<_>, _> = Fields::of(&message).collect();
        let expected = vec![
            (1, FieldValue::Number(150)),
            (2, FieldValue::Bytes(b"ab")),
            (3, FieldValue::Fixed),
            (2, FieldValue::Bytes(b"")),
        ];
        assert_eq!(fields, Ok(expected));
        let texts: Vec<_> = Fields::of(&message).all(2).collect();
        assert_eq!(texts, [&b"ab"[..], b""]);
    }

    #[test]
    fn truncated_messages_are_malformed() {
        for message in [&[0x08][..], &[0x08, 0x80], &[0x12, 3, 1], &[0x1d, 1], &[3]] {
            assert_eq!(
                Fields::of(message).last(),
                Some(Err(MalformedMessage)),
                "{message:?}"
            );
        }
        assert_eq!(number(&mut &[0x80; 20][..]), None);
    }

    proptest! {
        #[test]
        fn iteration_ends_for_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Fields::of(&bytes).count() <= bytes.len());
        }
    }
}
