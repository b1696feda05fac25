//! Tables of mounts, from `/proc/PID/mountinfo`.
//!
//! Invariants: a malformed line is skipped; the text is untrusted.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, path::PathBuf, str::FromStr};

use rustix::fs::makedev;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub(super) id: u64,
    /// Number of the device of its file system.
    pub(super) device: u64,
    /// Where it is mounted, in its mount namespace.
    pub(super) point: PathBuf,
    pub(super) kind: Vec<u8>,
    /// Options of the file system.
    options: Vec<u8>,
}

impl Mount {
    /// Parses one line without its newline.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = number(fields.next()?)?;
        // After its parent.
        let device = fields.nth(1)?;
        let colon = device.iter().position(|&byte| byte == b':')?;
        let device = makedev(number(&device[..colon])?, number(&device[colon + 1..])?);
        // After its root.
        let point = unescape(fields.nth(1)?);
        // Any number of optional fields ends with a dash.
        fields.find(|field| field == b"-")?;
        let kind = fields.next()?.to_vec();
        let options = fields.nth(1)?.to_vec();
        Some(Self {
            id,
            device,
            point: OsString::from_vec(point).into(),
            kind,
            options,
        })
    }

    /// Whether a program serves it.
    pub fn is_fuse(&self) -> bool {
        let kind = &*self.kind;
        kind == b"fuse"
            || kind == b"fuseblk"
            || kind.starts_with(b"fuse.")
            || kind.starts_with(b"fuseblk.")
    }

    /// The directories whose files an overlay file system shows, as far as their paths are absolute.
    pub fn layers(&self) -> Vec<PathBuf> {
        if self.kind != b"overlay" {
            return Vec::new();
        }
        let names = [&b"lowerdir="[..], b"lowerdir+=", b"datadir+=", b"upperdir="];
        let options = self.options.split(|&byte| byte == b',');
        options
            .filter_map(|option| names.iter().find_map(|name| option.strip_prefix(*name)))
            .flat_map(|value| value.split(|&byte| byte == b':'))
            .filter(|path| path.starts_with(b"/"))
            .map(|path| OsString::from_vec(unescape(path)).into())
            .collect()
    }
}

fn number<T: FromStr>(digits: &[u8]) -> Option<T> {
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Replaces `\040` and the like, by which the kernel writes white space and backslashes.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\');
        let byte = octal
            .and_then(|digits| str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(byte.unwrap_or(first));
        rest = &after[if byte.is_some() { 3 } else { 0 }..];
    }
    plain
}

/// Parses the contents of a file `mountinfo`; malformed lines are skipped.
pub fn parse(text: &[u8]) -> impl Iterator<Item = Mount> {
    text.split(|&byte| byte == b'\n').filter_map(Mount::parse)
}

#[cfg(test)]
mod tests {
    use super::{Mount, parse};
    use proptest::prelude::{any, proptest};
    use std::path::Path;

    #[test]
    fn mounts_are_read() {
        let text = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            36 22 0:35 / /mnt/a\\040b rw master:3 propagate_from:2 - fuse.sshfs host:/ rw\n\
            broken\n\
            40 22 0:36 / /blk rw - fuseblk /dev/sdb rw\n\
            41 22 0:37 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n\
            50 22 0:40 / /c rw - overlay overlay rw,lowerdir=/l/1:rel:/l/2,upperdir=/u,workdir=/w";
        let mounts: Vec<Mount> = parse(text).collect();
        let found: Vec<_> = mounts
            .iter()
            .map(|mount| (mount.id, &*mount.point, mount.is_fuse()))
            .collect();
        let path = Path::new;
        assert_eq!(
            found,
            [
                (22, path("/"), false),
                (36, path("/mnt/a b"), true),
                (40, path("/blk"), true),
                (41, path("/sys/fs/fuse/connections"), false),
                (50, path("/c"), false),
            ]
        );
        assert_eq!(mounts[4].layers(), [path("/l/1"), path("/l/2"), path("/u")]);
        assert!(mounts[1].layers().is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in any::<Vec<u8>>()) {
            parse(&text).count();
        }
    }
}
