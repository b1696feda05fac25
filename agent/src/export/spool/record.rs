//! File format of a spooled payload.
//!
//! A header of [`HEADER_BYTES`], then the name, then the body. Invariant: bytes that were truncated,
//! changed or written for another kind of destination are detected.

use bytes::Bytes;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

use super::super::batch::Payload;

/// First bytes of a file; the last byte is the version.
const MAGIC: [u8; 8] = *b"agntspl\x01";

/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 1_024;

/// Kind of destination that a payload is encoded for.
pub(in super::super) type PayloadFormat = [u8; 4];

/// What precedes the name.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    format: PayloadFormat,
    /// CRC-32 of the fields below, the name and the body.
    checksum: U32,
    name_bytes: U64,
    body_bytes: U64,
}

/// Size of the header.
pub(super) const HEADER_BYTES: usize = size_of::<Header>();

/// Why bytes are not a valid payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    /// Shorter than a header.
    #[error("{bytes} bytes are less than a header")]
    Short {
        /// Number of bytes.
        bytes: usize,
    },
    /// Another kind of file.
    #[error("it is no spooled payload")]
    Magic,
    /// For another kind of destination.
    #[error("it is for another kind of destination")]
    Format,
    /// Longer or shorter than the header says.
    #[error("its {bytes} bytes are not the length in its header")]
    Length {
        /// Number of bytes.
        bytes: usize,
    },
    /// The content has changed.
    #[error("its checksum is wrong")]
    Checksum,
    /// The name is not UTF-8.
    #[error("its name is not UTF-8")]
    Name,
}

/// Header of a payload; the name and the body follow it.
pub(super) fn header(format: PayloadFormat, payload: &Payload) -> [u8; HEADER_BYTES] {
    let name_bytes = U64::new(payload.name.len() as u64);
    let body_bytes = U64::new(payload.body.len() as u64);
    let header = Header {
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
    zerocopy::transmute!(header)
}

/// Parses the content of a file.
pub(super) fn parse(format: PayloadFormat, bytes: &[u8]) -> Result<Payload, RecordError> {
    let Ok((header, rest)) = Header::read_from_prefix(bytes) else {
        return Err(RecordError::Short { bytes: bytes.len() });
    };
    if header.magic != MAGIC {
        return Err(RecordError::Magic);
    }
    if header.format != format {
        return Err(RecordError::Format);
    }
    let length = || {
        let name = usize::try_from(header.name_bytes.get()).ok()?;
        let body = usize::try_from(header.body_bytes.get()).ok()?;
        let is_complete = name.checked_add(body)? == rest.len();
        (is_complete && name <= MAX_NAME_BYTES).then_some(name)
    };
    let Some((name, body)) = length().and_then(|name| rest.split_at_checked(name)) else {
        return Err(RecordError::Length { bytes: bytes.len() });
    };
    if checksum(header.name_bytes, header.body_bytes, name, body) != header.checksum {
        return Err(RecordError::Checksum);
    }
    Ok(Payload {
        name: str::from_utf8(name)
            .map_err(|_| RecordError::Name)?
            .to_owned(),
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
            &header(FORMAT, payload),
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
        fn a_truncated_file_is_rejected(payload in payloads(), end in any::<prop::sample::Index>()) {
            let bytes = file(&payload);
            let end = end.index(bytes.len());
            let expected = if end < HEADER_BYTES {
                RecordError::Short { bytes: end }
            } else {
                RecordError::Length { bytes: end }
            };
            prop_assert_eq!(parse(FORMAT, &bytes[..end]), Err(expected));
        }

        #[test]
        fn zeroed_blocks_are_detected(
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
        fn a_changed_bit_is_detected(
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
        fn random_bytes_are_rejected(
            lengths in any::<(u64, u64)>(),
            rest in prop::collection::vec(any::<u8>(), 0..200),
            has_magic in any::<bool>(),
        ) {
            let mut bytes = Vec::new();
            if has_magic {
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
    fn a_payload_for_another_destination_is_rejected() {
        let payload = Payload {
            name: "a".to_owned(),
            body: Bytes::from_static(b"b"),
        };
        assert_eq!(parse(*b"othr", &file(&payload)), Err(RecordError::Format));
    }
}
