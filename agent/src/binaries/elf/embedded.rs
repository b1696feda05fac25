//! `MiniDebugInfo`: an embedded ELF file with the symbols of a stripped file (`.gnu_debugdata`, as on
//! Fedora).

use std::io::Read as _;

use lzma_rust2::XzReader;

use super::{error::Error, file::Elf, source::Source};

const SECTION: &str = ".gnu_debugdata";

/// Most bytes of the compressed file.
const MAX_COMPRESSED: u64 = 16 << 20;

/// Most bytes of the decompressed file.
const MAX_BYTES: u64 = 64 << 20;

/// Most memory that decompression takes, in KiB; `xz -6` needs 8 MiB.
const MAX_MEMORY: u32 = 33 << 10;

impl<S: Source> Elf<S> {
    /// The embedded file, if there is one. It lacks the symbols that this one exports.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is malformed.
    pub fn embedded(&self) -> Result<Option<Elf<Vec<u8>>>, Error> {
        let compressed = self.contents(SECTION, MAX_COMPRESSED)?;
        if compressed.is_empty() {
            return Ok(None);
        }
        let contents = decompress(&compressed).ok_or(Error::Compressed { what: SECTION })?;
        Elf::read(contents).map(Some)
    }
}

fn decompress(compressed: &[u8]) -> Option<Vec<u8>> {
    let mut contents = Vec::new();
    XzReader::new_mem_limit(compressed, false, MAX_MEMORY)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut contents)
        .ok()?;
    (contents.len() as u64 <= MAX_BYTES).then_some(contents)
}

#[cfg(test)]
mod tests {
    use super::decompress;
    use proptest::prelude::{any, prop, proptest};
    use std::{
        io::Write as _,
        process::{Command, Stdio},
        sync::LazyLock,
    };

    /// A text, compressed by `xz`.
    static COMPRESSED: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut xz = Command::new("xz")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = xz.stdin.take().unwrap();
        input.write_all(&b"symbols ".repeat(1000)).unwrap();
        drop(input);
        xz.wait_with_output().unwrap().stdout
    });

    #[test]
    fn the_file_is_decompressed() {
        assert_eq!(decompress(&COMPRESSED).unwrap(), b"symbols ".repeat(1000));
        assert_eq!(decompress(&COMPRESSED[..COMPRESSED.len() / 2]), None);
        assert_eq!(decompress(b""), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in any::<Vec<u8>>()) {
            let _ = decompress(&bytes);
            let _ = decompress(&[&COMPRESSED[..6], &bytes].concat());
        }

        #[test]
        fn flipped_bits_do_not_panic(
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..5),
        ) {
            let mut bytes = COMPRESSED.clone();
            for (at, bit) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            let _ = decompress(&bytes);
        }
    }
}
