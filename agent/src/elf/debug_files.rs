//! Where the debugging information of a file is, when it was stripped off it.
//!
//! It is looked for as gdb does, in the process's own root and then on the host. A file is taken
//! when its build ID is that of the image, or, for want of one, the checksum that the image has
//! of it is right: an old package's offsets would be wrong ones.

use std::{
    fs::File,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use flate2::Crc;

use super::{Elf, Source};
use crate::process::{Process, open_on_host};

/// Where packages put debugging information.
const DIRECTORY: &str = "/usr/lib/debug";

/// Most bytes of a file of which the checksum is computed.
const MAX_BYTES: u64 = 256 << 20;

/// Most bytes of the section that names the file.
const MAX_LINK: u64 = 4096;

impl<S: Source> Elf<S> {
    /// Whether it holds debugging information.
    #[must_use]
    pub fn has_debug_info(&self) -> bool {
        self.section(".debug_info")
            .is_some_and(|section| section.file_offset.is_some())
    }
}

/// The files that may hold the debugging information of an image.
#[derive(Clone, Copy, Debug)]
pub struct DebugFiles<'a> {
    process: &'a Process,
    image: &'a Path,
}

impl<'a> DebugFiles<'a> {
    /// Those of the file that `process` has at `image`.
    #[must_use]
    pub fn of(process: &'a Process, image: &'a Path) -> Self {
        Self { process, image }
    }

    /// The file with the debugging information of `elf`, which is the image.
    #[must_use]
    pub fn find<S: Source>(&self, elf: &Elf<S>) -> Option<Elf<File>> {
        let proof = Proof::of(elf);
        self.paths(&proof).iter().find_map(|path| {
            let opened = [self.process.open_in_root(path), open_on_host(path)];
            opened
                .into_iter()
                .flatten()
                .find_map(|file| proof.accept(file))
        })
    }

    /// Where it may be, the likeliest first.
    fn paths(&self, proof: &Proof) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        if let Some((first, rest)) = proof
            .build_id
            .as_deref()
            .and_then(|id| id.split_at_checked(2))
        {
            paths.push(format!("{DIRECTORY}/.build-id/{first}/{rest}.debug").into());
        }
        let image = self.image.as_os_str().as_bytes();
        let directory = self.image.parent().unwrap_or(Path::new("/"));
        let below = |path: &Path| {
            let path = path.strip_prefix("/").unwrap_or(path);
            Path::new(DIRECTORY).join(path)
        };
        if let Some(link) = &proof.link {
            // The image itself is not its own debugging information.
            let beside = directory.join(&link.name);
            if beside != self.image {
                paths.push(beside);
            }
            paths.push(directory.join(".debug").join(&link.name));
            paths.push(below(directory).join(&link.name));
        }
        let with_end = [image, b".debug"].concat();
        paths.push(below(Path::new(std::ffi::OsStr::from_bytes(&with_end))));
        paths
    }
}

/// What the section `.gnu_debuglink` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    name: String,
    checksum: u32,
}

impl Link {
    fn parse(section: &[u8]) -> Option<Self> {
        let end = section.iter().position(|&byte| byte == 0)?;
        let name = str::from_utf8(&section[..end]).ok()?;
        // A name, not a path.
        if name.is_empty() || name.contains('/') || name == ".." {
            return None;
        }
        let checksum = section
            .get((end + 1).next_multiple_of(4)..)?
            .first_chunk()?;
        Some(Self {
            name: name.to_owned(),
            checksum: u32::from_le_bytes(*checksum),
        })
    }
}

/// What proves that a file belongs to an image.
struct Proof {
    build_id: Option<String>,
    link: Option<Link>,
}

impl Proof {
    fn of<S: Source>(elf: &Elf<S>) -> Self {
        let link = elf.contents(".gnu_debuglink", MAX_LINK);
        Self {
            build_id: elf.build_id().ok().flatten(),
            link: link.ok().and_then(|section| Link::parse(&section)),
        }
    }

    fn accept(&self, file: File) -> Option<Elf<File>> {
        let elf = Elf::read(file).ok()?;
        let is_right = match &self.build_id {
            Some(build_id) => elf.build_id().ok().flatten().as_ref() == Some(build_id),
            None => self
                .link
                .as_ref()
                .is_some_and(|link| checksum(&elf) == Some(link.checksum)),
        };
        (is_right && elf.has_debug_info()).then_some(elf)
    }
}

/// The checksum of a whole file, unless it is too large.
fn checksum(elf: &Elf<File>) -> Option<u32> {
    let mut checksum = Crc::new();
    elf.scan_all(MAX_BYTES, |piece| checksum.update(piece))
        .ok()?;
    Some(checksum.sum())
}

#[cfg(test)]
mod tests {
    use super::Link;
    use proptest::prelude::{any, proptest};

    #[test]
    fn a_link_is_a_name_and_a_checksum() {
        let link = Link::parse(b"a.debug\0\x78\x56\x34\x12").unwrap();
        assert_eq!(
            (link.name.as_str(), link.checksum),
            ("a.debug", 0x1234_5678)
        );
        let padded = Link::parse(b"ab.debug\0\0\0\0\x01\0\0\0").unwrap();
        assert_eq!(padded.checksum, 1);
        for section in [
            &b"../a\0\0\0\0\0\0\0\0"[..],
            b"\0\0\0\0\0\0\0\0",
            b"a.debug\0\x78",
        ] {
            assert_eq!(Link::parse(section), None);
        }
    }

    proptest! {
        #[test]
        fn no_section_makes_it_panic(section in any::<Vec<u8>>()) {
            let _ = Link::parse(&section);
        }
    }
}
