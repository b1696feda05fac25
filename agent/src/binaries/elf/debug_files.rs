//! Separate files with the debugging information of a stripped file.
//!
//! They are searched where gdb searches: in the process's root, and below [`DIRECTORY`] on the host. A
//! file is accepted if its build ID equals the image's, or, where the image has none, if its checksum is
//! the one in the image: a file of another build has wrong offsets.
//!
//! Invariants: what a file says about an image goes into the profiles of everybody who maps the image,
//! and any user may have a root of their own, so that a file in a process's root must belong to root or to the
//! owner of the image; a process chooses no path on the host.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use flate2::Crc;

use super::{
    file::{Elf, Section},
    functions::Which,
    notes::{MAX_BUILD_ID, hexadecimal},
    source::Source,
};
use crate::process::{Process, RegularFile, open_on_host};

/// Where packages install debugging information.
const DIRECTORY: &str = "/usr/lib/debug";

/// Most bytes of a file whose checksum is computed.
const MAX_BYTES: u64 = 256 << 20;

/// Most bytes of a section that names a file.
const MAX_LINK: u64 = 4096;

impl<S: Source> Elf<S> {
    /// Whether it has debugging information.
    #[must_use]
    pub fn has_debug_info(&self) -> bool {
        self.debug_info_section().is_some()
    }

    /// The section with its debugging information, without lines and strings.
    #[must_use]
    pub fn debug_info_section(&self) -> Option<Section> {
        let section = self.section(".debug_info")?;
        section.file_offset.is_some().then_some(section)
    }
}

/// The files that may hold the debugging information of an image.
#[derive(Clone, Copy, Debug)]
pub struct DebugFiles<'a> {
    process: Option<&'a Process>,
    image: &'a Path,
}

impl<'a> DebugFiles<'a> {
    /// The candidates for the file at `image` in the root of `process`.
    #[must_use]
    pub fn of(process: &'a Process, image: &'a Path) -> Self {
        Self {
            process: Some(process),
            image,
        }
    }

    /// The candidates for the file at `image` on the host.
    #[must_use]
    pub fn on_host(image: &'a Path) -> Self {
        Self {
            process: None,
            image,
        }
    }

    /// The file with the debugging information, or only the symbols, of `elf`, which is the image.
    #[must_use]
    pub fn find<S: Source>(&self, elf: &Elf<S>) -> Option<Elf<RegularFile>> {
        let id = DebugFileId::of(elf);
        let paths = self.paths(&id);
        self.open(&paths, elf.source.owner(), |file| id.accept(file))
    }

    /// The supplementary file that `elf`, which has debugging information, shares with others
    /// (`.gnu_debugaltlink`, written by `dwz`).
    #[must_use]
    pub fn find_shared<S: Source>(&self, elf: &Elf<S>) -> Option<Elf<RegularFile>> {
        let section = elf.contents(".gnu_debugaltlink", MAX_LINK).ok()?;
        let (path, build_id) = split_link(&section)?;
        let paths = shared_paths(path, &build_id);
        self.open(&paths, elf.source.owner(), |file| {
            let elf = Elf::read(file).ok()?;
            let is_right = elf.build_id().ok().flatten().as_ref() == Some(&build_id);
            (is_right && elf.has_debug_info()).then_some(elf)
        })
    }

    /// The first file at one of `paths` that is accepted, in the process's root or on the host; `owner`
    /// is the image's.
    fn open<T>(
        &self,
        paths: &[PathBuf],
        owner: Option<u64>,
        accept: impl Fn(RegularFile) -> Option<T>,
    ) -> Option<T> {
        let may_describe = |file: &RegularFile| {
            let found = file.owner().ok();
            found == Some(0) || (found.is_some() && found == owner)
        };
        paths.iter().find_map(|path| {
            let in_root = self.process.and_then(|it| it.open_in_root(path).ok());
            let on_host = || {
                is_installed(path)
                    .then(|| open_on_host(path).ok())
                    .flatten()
            };
            let in_root = in_root.filter(may_describe).and_then(&accept);
            in_root.or_else(|| on_host().and_then(&accept))
        })
    }

    /// The paths of candidates, the most likely first.
    fn paths(&self, id: &DebugFileId) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        paths.extend(id.build_id.as_deref().and_then(by_build_id));
        let image = self.image.as_os_str().as_bytes();
        let directory = self.image.parent().unwrap_or(Path::new("/"));
        let below = |path: &Path| {
            let path = path.strip_prefix("/").unwrap_or(path);
            Path::new(DIRECTORY).join(path)
        };
        if let Some(link) = &id.link {
            // The image is not its own debug file.
            let beside = directory.join(&link.name);
            if beside != self.image {
                paths.push(beside);
            }
            paths.push(directory.join(".debug").join(&link.name));
            paths.push(below(directory).join(&link.name));
        }
        let with_end = [image, b".debug"].concat();
        paths.push(below(Path::new(OsStr::from_bytes(&with_end))));
        paths
    }
}

/// Whether a path is where packages install debugging information.
fn is_installed(path: &Path) -> bool {
    path.starts_with(DIRECTORY) && path.components().all(|part| part != Component::ParentDir)
}

fn by_build_id(build_id: &str) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    Some(format!("{DIRECTORY}/.build-id/{first}/{rest}.debug").into())
}

/// The path and the build ID in a section `.gnu_debugaltlink`.
fn split_link(section: &[u8]) -> Option<(&Path, String)> {
    let end = section.iter().position(|&byte| byte == 0)?;
    let (path, build_id) = (&section[..end], &section[end + 1..]);
    let is_right = !path.is_empty() && (1..=MAX_BUILD_ID).contains(&build_id.len());
    is_right.then(|| (Path::new(OsStr::from_bytes(path)), hexadecimal(build_id)))
}

/// The paths of candidates for a supplementary file.
fn shared_paths(path: &Path, build_id: &str) -> Vec<PathBuf> {
    const FOLDER: &str = ".dwz";
    let mut paths: Vec<PathBuf> = by_build_id(build_id).into_iter().collect();
    if path.is_absolute() {
        paths.push(path.to_owned());
    }
    // Other paths are relative to a file that is anywhere below the directory of debug files.
    let inside = path.iter().skip_while(|part| *part != FOLDER).skip(1);
    if inside.clone().all(|part| part != "..") && inside.clone().next().is_some() {
        paths.push(
            [DIRECTORY, FOLDER]
                .iter()
                .map(OsStr::new)
                .chain(inside)
                .collect(),
        );
    }
    paths
}

/// The section `.gnu_debuglink`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    name: String,
    checksum: u32,
}

impl Link {
    fn parse(section: &[u8]) -> Option<Self> {
        let end = section.iter().position(|&byte| byte == 0)?;
        let name = str::from_utf8(&section[..end]).ok()?;
        // It must be a name, not a path.
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

/// What identifies the debug file of an image.
struct DebugFileId {
    build_id: Option<String>,
    link: Option<Link>,
}

impl DebugFileId {
    fn of<S: Source>(elf: &Elf<S>) -> Self {
        let link = elf.contents(".gnu_debuglink", MAX_LINK);
        Self {
            build_id: elf.build_id().ok().flatten(),
            link: link.ok().and_then(|section| Link::parse(&section)),
        }
    }

    fn accept(&self, file: RegularFile) -> Option<Elf<RegularFile>> {
        let elf = Elf::read(file).ok()?;
        let is_right = match &self.build_id {
            Some(build_id) => elf.build_id().ok().flatten().as_ref() == Some(build_id),
            None => self
                .link
                .as_ref()
                .is_some_and(|link| checksum(&elf) == Some(link.checksum)),
        };
        let is_useful = elf.has_debug_info() || elf.symbol_table(Which::All).is_some();
        (is_right && is_useful).then_some(elf)
    }
}

/// The checksum of a whole file; [`None`] where it is too large or cannot be read.
fn checksum(elf: &Elf<RegularFile>) -> Option<u32> {
    let mut checksum = Crc::new();
    elf.scan_all(MAX_BYTES, |piece| checksum.update(piece))
        .ok()?;
    Some(checksum.sum())
}

#[cfg(test)]
mod tests {
    use super::{Link, shared_paths, split_link};
    use proptest::prelude::{any, proptest};
    use std::path::Path;

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

    #[test]
    fn a_shared_file_is_named_with_its_build_id() {
        let link = split_link(b"/usr/lib/debug/.dwz/a.debug\0\x12\xab").unwrap();
        assert_eq!(
            link,
            (Path::new("/usr/lib/debug/.dwz/a.debug"), "12ab".to_owned())
        );
        for section in [&b""[..], b"a", b"a\0", b"\0\x12"] {
            assert_eq!(split_link(section), None);
        }
        let paths = |path| shared_paths(Path::new(path), "12ab");
        let first = Path::new("/usr/lib/debug/.build-id/12/ab.debug");
        let second = Path::new("/usr/lib/debug/.dwz/x/a");
        assert_eq!(paths("../../.dwz/x/a"), [first, second]);
        assert_eq!(paths("/else/a"), [first, Path::new("/else/a")]);
        assert_eq!(paths("../../.dwz/../../etc/shadow"), [first]);
        assert_eq!(paths("a"), [first]);
    }

    proptest! {
        #[test]
        fn arbitrary_sections_do_not_panic(section in any::<Vec<u8>>()) {
            let _ = Link::parse(&section);
            let _ = split_link(&section);
        }
    }
}
