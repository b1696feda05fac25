//! Memory mappings of a process, from `/proc/PID/maps`.
//!
//! Invariants: a malformed line is skipped; the text is untrusted.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::PathBuf};

/// Suffix that the kernel appends to the path of a removed file.
const DELETED: &[u8] = b" (deleted)";

/// A mapped range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Access permissions.
    pub permissions: Permissions,
    /// Offset of its start in the file, in bytes.
    pub file_offset: u64,
    /// The mapped file; [`None`] for anonymous memory and for the kernel's own mappings.
    pub file: Option<MappedFile>,
    /// Whether it is the vDSO.
    pub is_vdso: bool,
}

/// Access permissions of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub execute: bool,
}

/// Device and inode, which identify a file as long as it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// The inode on that device.
    pub inode: u64,
}

/// A mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// Device and inode.
    pub id: FileId,
    /// Its path in the process's mount namespace when it was opened.
    pub path: PathBuf,
    /// Whether it was removed, so that the path leads nowhere or to another file.
    pub is_deleted: bool,
}

impl Mapping {
    /// Parses one line without its newline.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut rest = line;
        let (start, end) = split_at_byte(field(&mut rest)?, b'-')?;
        let permissions = field(&mut rest)?;
        let file_offset = hexadecimal(field(&mut rest)?)?;
        let (major, minor) = split_at_byte(field(&mut rest)?, b':')?;
        let device = (
            hexadecimal(major)?.try_into().ok()?,
            hexadecimal(minor)?.try_into().ok()?,
        );
        let inode = str::from_utf8(field(&mut rest)?).ok()?.parse().ok()?;
        let id = FileId { device, inode };
        let mapping = Self {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            permissions: Permissions {
                read: permissions.first() == Some(&b'r'),
                write: permissions.get(1) == Some(&b'w'),
                execute: permissions.get(2) == Some(&b'x'),
            },
            file_offset,
            file: MappedFile::parse(rest.trim_ascii_start(), id),
            is_vdso: rest.trim_ascii() == b"[vdso]",
        };
        (mapping.start < mapping.end).then_some(mapping)
    }

    /// Whether `address` is in its range.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

impl MappedFile {
    fn parse(name: &[u8], id: FileId) -> Option<Self> {
        if id.inode == 0 || name.first() != Some(&b'/') {
            return None;
        }
        let (path, is_deleted) = strip_deleted(name);
        Some(Self {
            id,
            path: OsString::from_vec(unescape(path)).into(),
            is_deleted,
        })
    }
}

/// Parses the contents of a file `maps`; malformed lines are skipped.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Mapping> {
    text.split(|&byte| byte == b'\n')
        .filter_map(Mapping::parse)
        .collect()
}

/// A path without the suffix of removed files, and whether it had one.
pub(crate) fn strip_deleted(path: &[u8]) -> (&[u8], bool) {
    path.strip_suffix(DELETED)
        .map_or((path, false), |path| (path, true))
}

/// Splits off the text up to the next space.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = rest.trim_ascii_start();
    let end = text
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(text.len());
    let (field, after) = text.split_at(end);
    *rest = after;
    (!field.is_empty()).then_some(field)
}

fn split_at_byte(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Decodes `\012`, the only escape sequence that the kernel uses in these paths.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(br"\012") {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(first);
            rest = after;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{FileId, Mapping, parse};
    use proptest::prelude::{any, proptest};
    use std::path::Path;

    #[test]
    fn a_mapped_library_is_read() {
        let line = b"7f22d6a00000-7f22d6b06000 r-xp 00106000 fe:01 1835021  /usr/lib/a b.so";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!(mapping.start, 0x7f22_d6a0_0000);
        assert_eq!(mapping.end, 0x7f22_d6b0_6000);
        assert_eq!(mapping.file_offset, 0x10_6000);
        assert!(mapping.permissions.read && mapping.permissions.execute);
        assert!(!mapping.permissions.write);
        let file = mapping.file.unwrap();
        let id = FileId {
            device: (0xfe, 1),
            inode: 1_835_021,
        };
        assert_eq!(file.id, id);
        assert_eq!(file.path, Path::new("/usr/lib/a b.so"));
        assert!(!file.is_deleted);
    }

    #[test]
    fn a_removed_file_is_marked() {
        let line = b"00400000-0041f000 r--p 00000000 fe:01 77 /tmp/x\\012y (deleted)";
        let file = Mapping::parse(line).unwrap().file.unwrap();
        assert_eq!(file.path, Path::new("/tmp/x\ny"));
        assert!(file.is_deleted);
    }

    #[test]
    fn anonymous_mappings_have_no_file() {
        for line in [
            "7ffd1a5f0000-7ffd1a611000 rw-p 00000000 00:00 0    [stack]",
            "7f22d6a00000-7f22d6b06000 rw-p 00000000 00:00 0",
            "7f22d6a00000-7f22d6b06000 rw-s 00000000 00:0e 9 anon_inode:[perf_event]",
        ] {
            assert_eq!(Mapping::parse(line.as_bytes()).unwrap().file, None);
        }
    }

    #[test]
    fn a_malformed_line_is_skipped() {
        let text = b"zz-1 r-xp 0 0:0 0\n2000-1000 r-xp 0 0:0 0\n1000-2000 r-xp 0 0:0 0 \n\n";
        assert_eq!(parse(text).len(), 1);
    }

    #[test]
    fn this_process_is_read() {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(parse(text.as_bytes()).len(), text.lines().count());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<Vec<u8>>()) {
            let _ = parse(&text);
        }

        #[test]
        fn no_line_makes_it_panic(line in "[0-9a-f]{0,18}-[0-9a-f]{0,18} [rwxp-]{0,5} [0-9a-f]{0,18} [0-9a-f:]{0,9} [0-9]{0,22} .*") {
            let _ = parse(line.as_bytes());
        }
    }
}
