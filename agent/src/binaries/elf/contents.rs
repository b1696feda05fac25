//! The contents of a section, decompressed.

use std::io::Read as _;

use flate2::{Decompress, FlushDecompress, Status};
use goblin::elf::section_header::{SHF_COMPRESSED, SHT_NOBITS};
use ruzstd::decoding::StreamingDecoder;

use super::{
    error::Error,
    file::Elf,
    numbers::{u32_at, u64_at},
    source::Source,
};

/// Bytes of the header of a compressed section (`Elf64_Chdr`).
const HEADER_BYTES: usize = 24;

/// `ELFCOMPRESS_ZLIB`.
const ZLIB: u32 = 1;

/// `ELFCOMPRESS_ZSTD`.
const ZSTD: u32 = 2;

/// Largest window of decompression; `zstd -19` needs 8 MiB.
const MAX_WINDOW: u64 = 32 << 20;

impl<S: Source> Elf<S> {
    /// The contents of the section `name`, empty where the file has none.
    ///
    /// # Errors
    ///
    /// When it cannot be read or has more than `limit` bytes.
    pub fn contents(&self, name: &'static str, limit: u64) -> Result<Vec<u8>, Error> {
        let section = self
            .sections
            .iter()
            .find(|section| self.section_name(section) == Some(name.as_bytes()))
            .filter(|section| section.sh_type != SHT_NOBITS);
        let Some(section) = section else {
            return Ok(Vec::new());
        };
        let bytes = self.bytes_at(name, section.sh_offset, section.sh_size, limit)?;
        if section.sh_flags & u64::from(SHF_COMPRESSED) == 0 {
            return Ok(bytes);
        }
        decompress(name, &bytes, limit)
    }
}

/// Decompresses a section; the size that it claims must not exceed `limit`.
fn decompress(what: &'static str, section: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    let malformed = || Error::Compressed { what };
    let bytes = u64_at(section, 8);
    if bytes > limit {
        return Err(Error::TooLarge { what, bytes, limit });
    }
    let data = section.get(HEADER_BYTES..).ok_or_else(malformed)?;
    let length = usize::try_from(bytes).map_err(|_| malformed())?;
    let contents = match u32_at(section, 0) {
        ZLIB => inflate(data, length),
        ZSTD => decompress_zstd(data, length),
        _ => None,
    };
    contents
        .filter(|contents| contents.len() == length)
        .ok_or_else(malformed)
}

fn inflate(data: &[u8], length: usize) -> Option<Vec<u8>> {
    // Deflate expands a byte to at most 1032, so that a small file cannot claim much memory.
    if length / 1032 > data.len() {
        return None;
    }
    let mut contents = Vec::with_capacity(length);
    let status = Decompress::new(true)
        .decompress_vec(data, &mut contents, FlushDecompress::Finish)
        .ok()?;
    (status == Status::StreamEnd).then_some(contents)
}

fn decompress_zstd(data: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut contents = Vec::new();
    StreamingDecoder::new_with_max_window_size(data, MAX_WINDOW)
        .ok()?
        .take(length as u64 + 1)
        .read_to_end(&mut contents)
        .ok()?;
    Some(contents)
}

#[cfg(test)]
mod tests {
    use super::{Error, decompress};
    use flate2::{Compression, write::ZlibEncoder};
    use proptest::prelude::{any, prop, proptest};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write as _;

    fn head(kind: u64, claimed: u64) -> Vec<u8> {
        [kind, claimed, 1].map(u64::to_le_bytes).concat()
    }

    /// A section, compressed with zlib and with zstd.
    fn compressed(contents: &[u8], claimed: u64) -> [Vec<u8>; 2] {
        let mut encoder = ZlibEncoder::new(head(1, claimed), Compression::fast());
        encoder.write_all(contents).unwrap();
        let mut zstd = head(2, claimed);
        zstd.extend(compress_to_vec(contents, CompressionLevel::Fastest));
        [encoder.finish().unwrap(), zstd]
    }

    #[test]
    fn sections_are_decompressed() {
        let contents = b"structures ".repeat(1000);
        for section in compressed(&contents, contents.len() as u64) {
            assert_eq!(decompress("it", &section, 1 << 20).unwrap(), contents);
            let too_large = decompress("it", &section, 100).unwrap_err();
            assert!(matches!(too_large, Error::TooLarge { bytes: 11_000, .. }));
        }
    }

    #[test]
    fn wrong_sizes_are_errors() {
        let contents = b"structures ".repeat(1000);
        for claimed in [0, 10_999, 11_001, 1 << 39] {
            for section in compressed(&contents, claimed) {
                assert!(decompress("it", &section, 1 << 40).is_err(), "{claimed}");
            }
        }
        for section in compressed(&contents, 11_000) {
            assert!(decompress("it", &section[..section.len() - 5], 1 << 20).is_err());
            assert!(decompress("it", &section[..20], 1 << 20).is_err());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..99),
            kind in 0..3_u64,
            claimed in 0..1_u64 << 21,
        ) {
            let section = [head(kind, claimed), bytes].concat();
            let _ = decompress("it", &section, 1 << 20);
        }

        #[test]
        fn flipped_bits_do_not_panic(
            at in any::<prop::sample::Index>(),
            bit in 0..8_u32,
        ) {
            for mut section in compressed(&b"structures ".repeat(100), 1100) {
                let at = at.index(section.len());
                section[at] ^= 1 << bit;
                let _ = decompress("it", &section, 1 << 20);
            }
        }
    }
}
