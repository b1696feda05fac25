//! The contents of a whole section, also of a compressed one.

use flate2::{Decompress, FlushDecompress, Status};
use goblin::elf::section_header::{SHF_COMPRESSED, SHT_NOBITS};

use super::{Elf, Error, Source, half, word};

/// Bytes of the head of a compressed section.
const HEAD_BYTES: usize = 24;

/// `ELFCOMPRESS_ZLIB`.
const ZLIB: u32 = 1;

impl<S: Source> Elf<S> {
    /// The contents of the section `name`, nothing where the file holds none, and not more than
    /// `limit` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is larger.
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

/// Decompresses a section; what it says of its size is only believed up to `limit`.
fn decompress(what: &'static str, section: &[u8], limit: u64) -> Result<Vec<u8>, Error> {
    let broken = || Error::Compressed { what };
    let bytes = word(section, 8);
    if bytes > limit {
        return Err(Error::TooLarge { what, bytes, limit });
    }
    let data = section.get(HEAD_BYTES..).ok_or_else(broken)?;
    // Deflate makes at most 1032 bytes of one, so a small file cannot claim much memory.
    if half(section, 0) != ZLIB || bytes / 1032 > data.len() as u64 {
        return Err(broken());
    }
    let length = usize::try_from(bytes).map_err(|_| broken())?;
    let mut contents = Vec::with_capacity(length);
    let status = Decompress::new(true)
        .decompress_vec(data, &mut contents, FlushDecompress::Finish)
        .map_err(|_| broken())?;
    if status != Status::StreamEnd || contents.len() != length {
        return Err(broken());
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::{Error, decompress};
    use flate2::{Compression, write::ZlibEncoder};
    use proptest::prelude::{any, prop, proptest};
    use std::io::Write as _;

    fn compressed(contents: &[u8], claimed: u64) -> Vec<u8> {
        let mut section = Vec::new();
        section.extend(1_u64.to_le_bytes());
        section.extend(claimed.to_le_bytes());
        section.extend(1_u64.to_le_bytes());
        let mut encoder = ZlibEncoder::new(section, Compression::fast());
        encoder.write_all(contents).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_section_comes_out_as_it_was() {
        let contents = b"structures ".repeat(1000);
        let section = compressed(&contents, contents.len() as u64);
        assert_eq!(decompress("it", &section, 1 << 20).unwrap(), contents);
        let too_large = decompress("it", &section, 100).unwrap_err();
        assert!(matches!(too_large, Error::TooLarge { bytes: 11_000, .. }));
    }

    #[test]
    fn a_size_that_is_a_lie_is_noticed() {
        let contents = b"structures ".repeat(1000);
        for claimed in [0, 10_999, 11_001, 1 << 39] {
            let section = compressed(&contents, claimed);
            assert!(decompress("it", &section, 1 << 40).is_err(), "{claimed}");
        }
        let section = compressed(&contents, 11_000);
        assert!(decompress("it", &section[..section.len() - 1], 1 << 20).is_err());
        assert!(decompress("it", &section[..20], 1 << 20).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut section in prop::collection::vec(any::<u8>(), 24..99)) {
            section[..8].copy_from_slice(&1_u64.to_le_bytes());
            section[9..16].fill(0);
            let _ = decompress("it", &section, 1 << 20);
        }
    }
}
