//! The symbols that a stripped file has in a file inside it (`.gnu_debugdata`, as Fedora makes it).

use std::io::Read as _;

use lzma_rust2::XzReader;

use super::{Elf, Error, Source};

/// Where it is.
const SECTION: &str = ".gnu_debugdata";

/// Most bytes of it, compressed.
const MAX_COMPRESSED: u64 = 16 << 20;

/// Most bytes of it.
const MAX_BYTES: u64 = 64 << 20;

/// Most memory that decompression takes, in KiB; `xz -6` needs 8 MiB.
const MAX_MEMORY: u32 = 33 << 10;

impl<S: Source> Elf<S> {
    /// The file inside this one, if there is one; it lacks what this one has, such as symbols that
    /// other files can use.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is malformed.
    pub fn embedded(&self) -> Result<Option<Elf<Vec<u8>>>, Error> {
        let compressed = self.contents(SECTION, MAX_COMPRESSED)?;
        if compressed.is_empty() {
            return Ok(None);
        }
        let contents = unpack(&compressed).ok_or(Error::Compressed { what: SECTION })?;
        Elf::read(contents).map(Some)
    }
}

fn unpack(compressed: &[u8]) -> Option<Vec<u8>> {
    let mut contents = Vec::new();
    XzReader::new_mem_limit(compressed, false, MAX_MEMORY)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut contents)
        .ok()?;
    (contents.len() as u64 <= MAX_BYTES).then_some(contents)
}

#[cfg(test)]
mod tests {
    use super::unpack;
    use proptest::prelude::{any, prop, proptest};
    use std::{io::Write as _, process::Stdio, sync::LazyLock};
    use xtask::tools;

    /// What `xz` makes of a text.
    static COMPRESSED: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut xz = tools::XZ
            .command()
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
    fn it_comes_out_as_it_was() {
        assert_eq!(unpack(&COMPRESSED).unwrap(), b"symbols ".repeat(1000));
        assert_eq!(unpack(&COMPRESSED[..COMPRESSED.len() / 2]), None);
        assert_eq!(unpack(b""), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = unpack(&bytes);
            let _ = unpack(&[&COMPRESSED[..6], &bytes].concat());
        }

        #[test]
        fn no_flipped_bits_make_it_panic(
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..5),
        ) {
            let mut bytes = COMPRESSED.clone();
            for (at, bit) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            let _ = unpack(&bytes);
        }
    }
}
