//! The contents of a section, decompressed.
//!
//! Invariant: what is decompressed is bounded by the size that the section claims to have, which is
//! known before.

use std::io::{self, BufReader, Read, Write};

use flate2::bufread::ZlibDecoder;
use goblin::elf::{
    SectionHeader,
    section_header::{SHF_COMPRESSED, SHT_NOBITS},
};
use ruzstd::decoding::StreamingDecoder;

use super::{
    error::Error,
    file::Elf,
    numbers::{at_most, u32_at, u64_at},
    source::Source,
};

/// Bytes of the header of a compressed section (`Elf64_Chdr`).
const HEADER_BYTES: usize = 24;

/// Bytes that are read, and decompressed, at once. A file takes large aligned pieces at a tenth of the
/// processor time of small ones.
const PIECE: usize = 256 << 10;

/// `ELFCOMPRESS_ZLIB`.
const ZLIB: u32 = 1;

/// `ELFCOMPRESS_ZSTD`.
const ZSTD: u32 = 2;

/// Largest window of decompression; `zstd -19` needs 8 MiB.
const MAX_WINDOW: u64 = 32 << 20;

impl<S: Source> Elf<S> {
    /// The contents of the section `name`, decompressed; empty where the file has none.
    ///
    /// # Errors
    ///
    /// When it cannot be read or has more than `limit` bytes.
    pub fn contents(&self, name: &'static str, limit: u64) -> Result<Vec<u8>, Error> {
        let Some(section) = self.with_contents(name) else {
            return Ok(Vec::new());
        };
        if section.sh_flags & u64::from(SHF_COMPRESSED) == 0 {
            return self.bytes_at(name, section.sh_offset, section.sh_size, limit);
        }
        let mut contents = Vec::new();
        self.decompress_into(name, limit, &mut contents)?;
        Ok(contents)
    }

    /// The size of a compressed section when it is decompressed, as it claims.
    ///
    /// # Errors
    ///
    /// When there is no such section, or it cannot be read.
    pub fn decompressed_bytes(&self, name: &'static str) -> Result<u64, Error> {
        self.compressed(name).map(|(head, _)| head.bytes)
    }

    /// Decompresses a compressed section into `sink`, which gets as many bytes as the section claims
    /// to have.
    ///
    /// # Errors
    ///
    /// When it claims to have more than `limit` bytes or has more or fewer than it claims, and when it
    /// cannot be read or `sink` cannot be written.
    pub fn decompress_into(
        &self,
        what: &'static str,
        limit: u64,
        sink: &mut dyn Write,
    ) -> Result<(), Error> {
        let (head, data) = self.compressed(what)?;
        let bytes = head.bytes;
        if bytes > limit {
            return Err(Error::TooLarge { what, bytes, limit });
        }
        let malformed = || Error::Compressed { what };
        let data = BufReader::with_capacity(PIECE, data);
        match head.kind {
            // Deflate expands a byte to at most 1032.
            ZLIB if bytes / 1032 <= data.get_ref().left => {
                copy(&mut ZlibDecoder::new(data), bytes, sink)
            }
            ZSTD => {
                let data = StreamingDecoder::new_with_max_window_size(data, MAX_WINDOW);
                copy(&mut data.map_err(|_| malformed())?, bytes, sink)
            }
            _ => return Err(malformed()),
        }
        .map_err(|error| match error {
            CopyError::Malformed => malformed(),
            CopyError::Sink(source) => Error::Read {
                offset: 0,
                bytes,
                source,
            },
        })
    }

    fn with_contents(&self, name: &str) -> Option<&SectionHeader> {
        self.sections
            .iter()
            .find(|section| self.section_name(section) == Some(name.as_bytes()))
            .filter(|section| section.sh_type != SHT_NOBITS)
    }

    /// The head and the data of a compressed section.
    fn compressed(&self, what: &'static str) -> Result<(Head, FileData<'_, S>), Error> {
        let malformed = || Error::Compressed { what };
        let section = self.with_contents(what).ok_or_else(malformed)?;
        let left = section.sh_size.checked_sub(HEADER_BYTES as u64);
        let left = left.ok_or_else(malformed)?;
        let mut head = [0; HEADER_BYTES];
        self.fill(&mut head, section.sh_offset)?;
        let head = Head {
            kind: u32_at(&head, 0),
            bytes: u64_at(&head, 8),
        };
        let data = FileData {
            elf: self,
            offset: section.sh_offset.saturating_add(HEADER_BYTES as u64),
            left,
        };
        Ok((head, data))
    }
}

/// What a compressed section says about itself.
struct Head {
    kind: u32,
    /// Its size when it is decompressed.
    bytes: u64,
}

/// Bytes of a file.
struct FileData<'a, S> {
    elf: &'a Elf<S>,
    offset: u64,
    left: u64,
}

impl<S: Source> Read for FileData<'_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = at_most(self.left, into.len());
        self.elf.source.fill(&mut into[..bytes], self.offset)?;
        self.offset += bytes as u64;
        self.left -= bytes as u64;
        Ok(bytes)
    }
}

/// Why a copy ended early.
enum CopyError {
    Malformed,
    Sink(io::Error),
}

/// Copies all of `from`, which must be `bytes` bytes.
fn copy(from: &mut dyn Read, bytes: u64, sink: &mut dyn Write) -> Result<(), CopyError> {
    let mut piece = vec![0; PIECE];
    let mut left = bytes;
    loop {
        let read = fill(from, &mut piece).map_err(|_| CopyError::Malformed)?;
        if read == 0 {
            break;
        }
        left = left.checked_sub(read as u64).ok_or(CopyError::Malformed)?;
        sink.write_all(&piece[..read]).map_err(CopyError::Sink)?;
    }
    (left == 0).then_some(()).ok_or(CopyError::Malformed)
}

/// Reads as many bytes as `into` has, fewer only at the end.
fn fill(from: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match from.read(&mut into[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::{Elf, Error};
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

    /// Decompresses the section `it` of a file with nothing else.
    fn decompress(what: &'static str, section: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
        let mut file = vec![0; 64];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let names = b"\0it\0";
        let data = 64 + 3 * 64;
        let header = |name: u32, kind: u32, flags: u64, offset: usize, bytes: usize| {
            let mut header = Vec::new();
            header.extend(name.to_le_bytes());
            header.extend(kind.to_le_bytes());
            for field in [flags, 0, offset as u64, bytes as u64, 0, 1, 0] {
                header.extend(field.to_le_bytes());
            }
            header
        };
        file[40] = 64;
        file[58] = 64;
        file[60] = 3;
        file[62] = 2;
        file.extend(header(0, 0, 0, 0, 0));
        file.extend(header(1, 1, 0x800, data + names.len(), section.len()));
        file.extend(header(0, 3, 0, data, names.len()));
        file.extend(names);
        file.extend(section);
        Elf::read(file).unwrap().contents(what, limit)
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
