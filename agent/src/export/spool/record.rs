//! A payload as the bytes of a file.
//!
//! A head of [`HEAD_BYTES`], then the name, then the body. Invariant: bytes that were cut short,
//! changed or written for another kind of destination are told from a payload.

use bytes::Bytes;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

use super::super::batch::Payload;

/// What a file begins with; the last byte is the version.
const MAGIC: [u8; 8] = *b"agntspl\x01";

/// Longest name.
const MAX_NAME_BYTES: usize = 1_024;

/// What kind of destination a payload is for: others could not read its body.
pub(in super::super) type PayloadFormat = [u8; 4];

/// What stands before the name.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    format: PayloadFormat,
    /// CRC-32 of the fields below, the name and the body.
    checksum: U32,
    name_bytes: U64,
    body_bytes: U64,
}

/// Size of what stands before the name, in bytes.
pub(super) const HEAD_BYTES: usize = size_of::<Head>();

/// Why bytes are no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Torn {
    /// There is less than a head.
    #[error("{bytes} bytes are too few")]
    Short {
        /// How many there are.
        bytes: usize,
    },
    /// It is something else.
    #[error("it does not begin as a payload does")]
    Magic,
    /// It is for another kind of destination.
    #[error("it is for another kind of destination")]
    Format,
    /// It is longer or shorter than its head says.
    #[error("it has {bytes} bytes, not those that its head tells")]
    Length {
        /// How many there are.
        bytes: usize,
    },
    /// Something in it has changed.
    #[error("its checksum is wrong")]
    Checksum,
    /// Its name is not text.
    #[error("its name is not text")]
    Name,
}

/// What a payload begins with in a file; the name and the body come after it.
pub(super) fn head(format: PayloadFormat, payload: &Payload) -> [u8; HEAD_BYTES] {
    let name_bytes = U64::new(payload.name.len() as u64);
    let body_bytes = U64::new(payload.body.len() as u64);
    let head = Head {
        magic: MAGIC,
        format,
        checksum: checksum(
            name_bytes,
            body_bytes,
            payload.name.as_bytes(),
            &payload.body,
        ),
        name_bytes,
        body_bytes,
    };
    zerocopy::transmute!(head)
}

/// The payload that a file has in it.
pub(super) fn parse(format: PayloadFormat, bytes: &[u8]) -> Result<Payload, Torn> {
    let Ok((head, rest)) = Head::read_from_prefix(bytes) else {
        return Err(Torn::Short { bytes: bytes.len() });
    };
    if head.magic != MAGIC {
        return Err(Torn::Magic);
    }
    if head.format != format {
        return Err(Torn::Format);
    }
    let length = || {
        let name = usize::try_from(head.name_bytes.get()).ok()?;
        let body = usize::try_from(head.body_bytes.get()).ok()?;
        let whole = name.checked_add(body)? == rest.len();
        (whole && name <= MAX_NAME_BYTES).then_some(name)
    };
    let Some((name, body)) = length().and_then(|name| rest.split_at_checked(name)) else {
        return Err(Torn::Length { bytes: bytes.len() });
    };
    if checksum(head.name_bytes, head.body_bytes, name, body) != head.checksum {
        return Err(Torn::Checksum);
    }
    Ok(Payload {
        name: str::from_utf8(name).map_err(|_| Torn::Name)?.to_owned(),
        body: Bytes::copy_from_slice(body),
    })
}

fn checksum(name_bytes: U64, body_bytes: U64, name: &[u8], body: &[u8]) -> U32 {
    let mut crc = flate2::Crc::new();
    crc.update(name_bytes.as_bytes());
    crc.update(body_bytes.as_bytes());
    crc.update(name);
    crc.update(body);
    U32::new(crc.sum())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMAT: PayloadFormat = *b"test";

    fn file(payload: &Payload) -> Vec<u8> {
        [
            &head(FORMAT, payload),
            payload.name.as_bytes(),
            &payload.body,
        ]
        .concat()
    }

    fn payloads() -> impl Strategy<Value = Payload> {
        let body = prop::collection::vec(any::<u8>(), 0..600);
        ("[a-zé_0-9]{0,40}", body).prop_map(|(name, body)| Payload {
            name,
            body: body.into(),
        })
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(payload in payloads()) {
            prop_assert_eq!(parse(FORMAT, &file(&payload)), Ok(payload));
        }

        #[test]
        fn a_torn_file_is_no_parcel(payload in payloads(), cut in any::<prop::sample::Index>()) {
            let bytes = file(&payload);
            let cut = cut.index(bytes.len());
            let expected = if cut < HEAD_BYTES {
                Torn::Short { bytes: cut }
            } else {
                Torn::Length { bytes: cut }
            };
            prop_assert_eq!(parse(FORMAT, &bytes[..cut]), Err(expected));
        }

        #[test]
        fn blocks_that_never_reached_the_disk_are_noticed(
            payload in payloads(),
            from in any::<prop::sample::Index>(),
        ) {
            let mut bytes = file(&payload);
            let from = from.index(bytes.len());
            let zeroed = vec![0; bytes.len() - from];
            prop_assume!(bytes[from..] != zeroed);
            bytes[from..].copy_from_slice(&zeroed);
            prop_assert!(parse(FORMAT, &bytes).is_err());
        }

        #[test]
        fn a_changed_bit_is_noticed(
            payload in payloads(),
            at in any::<prop::sample::Index>(),
            bit in 0..8,
        ) {
            let mut bytes = file(&payload);
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            prop_assert!(parse(FORMAT, &bytes).is_err());
        }

        #[test]
        fn anything_can_be_parsed(
            lengths in any::<(u64, u64)>(),
            rest in prop::collection::vec(any::<u8>(), 0..200),
            is_parcel in any::<bool>(),
        ) {
            let mut bytes = Vec::new();
            if is_parcel {
                bytes.extend(MAGIC);
                bytes.extend(FORMAT);
                bytes.extend([0; 4]);
                bytes.extend(lengths.0.to_le_bytes());
                bytes.extend(lengths.1.to_le_bytes());
            }
            bytes.extend(rest);
            // A checksum of zero would have to be guessed.
            prop_assert!(parse(FORMAT, &bytes).is_err());
        }
    }

    #[test]
    fn a_parcel_for_another_destination_is_not_taken() {
        let payload = Payload {
            name: "a".to_owned(),
            body: Bytes::from_static(b"b"),
        };
        assert_eq!(parse(*b"othr", &file(&payload)), Err(Torn::Format));
    }
}
