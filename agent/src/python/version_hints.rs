//! Hints at the version of an interpreter that has none in its data: its file name and strings.

use super::version::{Version, decimal};

/// What the name of an executable or a library implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileNameHints {
    /// The version.
    pub(super) version: Version,
    /// Whether it is a debug build (`d`, `-dbg`).
    pub(super) is_debug: bool,
    /// Whether it is a free-threaded build (`t`).
    pub(super) is_free_threaded: bool,
}

impl FileNameHints {
    /// Parses names like `python3.8`, `python3.9-dbg`, `libpython3.6m.so.1.0`.
    #[must_use]
    pub(super) fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix("lib").unwrap_or(name);
        let (major, rest) = name.strip_prefix("python")?.split_once('.')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (minor, rest) = rest.split_at(digits);
        let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let (flags, rest) = rest.split_at(letters);
        Some(Self {
            version: Version::of_series(decimal(major)?, decimal(minor)?),
            is_debug: flags.contains('d') || rest.starts_with("-dbg"),
            is_free_threaded: flags.contains('t'),
        })
    }
}

/// Longest version literal in bytes.
const MAX_LITERAL: usize = 16;

/// Collects the strings of a file that look like `PY_VERSION`.
///
/// Linkers merge strings with equal ends, so `3.8.18` may only exist as the end of `/opt/3.8.18`;
/// a string of its own takes precedence.
#[derive(Debug, Default)]
pub(super) struct VersionLiterals {
    complete: Vec<Version>,
    suffixes: Vec<Version>,
}

impl VersionLiterals {
    /// Bytes by which the pieces given to [`scan`](Self::scan) must overlap.
    pub(super) const OVERLAP: usize = MAX_LITERAL + 2;

    /// Most versions that are collected.
    const MOST: usize = 64;

    /// Scans a piece of the file's constants.
    pub(super) fn scan(&mut self, piece: &[u8]) {
        let ends = piece
            .iter()
            .enumerate()
            .filter(|&(end, &byte)| byte == 0 && end >= 5);
        for (end, _) in ends {
            let text = &piece[end.saturating_sub(MAX_LITERAL)..end];
            let start = text
                .iter()
                .rposition(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'a'..=b'c' | b'r' | b'+'))
                .map_or(0, |before| before + 1);
            let Some(version) = str::from_utf8(&text[start..])
                .ok()
                .and_then(Version::from_literal)
            else {
                continue;
            };
            // A literal at the start of the piece may be the end of a longer string.
            let Some(before) = end
                .checked_sub(text.len() - start + 1)
                .and_then(|at| piece.get(at))
            else {
                continue;
            };
            let list = if *before == 0 {
                &mut self.complete
            } else {
                &mut self.suffixes
            };
            if !list.contains(&version) && list.len() < Self::MOST {
                list.push(version);
            }
        }
    }

    /// The only collected version that `fits`; [`None`] when there are none or several.
    #[must_use]
    pub(super) fn only(&self, fits: impl Fn(Version) -> bool) -> Option<Version> {
        let pick = |list: &[Version]| {
            let mut fitting = list.iter().copied().filter(|&version| fits(version));
            match (fitting.next(), fitting.next()) {
                (only, None) => Ok(only),
                _ => Err(()),
            }
        };
        match pick(&self.complete) {
            Ok(Some(version)) => Some(version),
            Ok(None) => pick(&self.suffixes).ok().flatten(),
            Err(()) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FileNameHints, VersionLiterals};
    use crate::python::version::Version;
    use proptest::prelude::{any, proptest};

    #[test]
    fn names_imply_series_and_flavour() {
        let series = |name| FileNameHints::parse(name).map(|named| named.version.to_string());
        assert_eq!(series("python3.8").as_deref(), Some("3.8"));
        assert_eq!(series("libpython3.6m.so.1.0").as_deref(), Some("3.6"));
        assert_eq!(series("libpython3.so"), None);
        assert_eq!(series("python3"), None);
        assert_eq!(series("bash"), None);
        assert!(
            FileNameHints::parse("libpython3.12d.so.1.0")
                .unwrap()
                .is_debug
        );
        assert!(FileNameHints::parse("python3.9-dbg").unwrap().is_debug);
        assert!(
            FileNameHints::parse("python3.13t")
                .unwrap()
                .is_free_threaded
        );
        assert!(!FileNameHints::parse("python3.13").unwrap().is_free_threaded);
    }

    #[test]
    fn a_literal_is_found_also_as_the_end_of_a_path() {
        let fits = |version: Version| version.minor == 8;
        let found = |text: &[u8]| {
            let mut literals = VersionLiterals::default();
            literals.scan(text);
            literals.only(fits).map(|version| version.to_string())
        };
        assert_eq!(found(b"x\x00/opt/3.8.18\x00").as_deref(), Some("3.8.18"));
        assert_eq!(
            found(b"x\x00/opt/3.8.1\x003.8.18\x00").as_deref(),
            Some("3.8.18")
        );
        assert_eq!(found(b"\x003.8.1\x003.8.18\x00"), None);
        assert_eq!(found(b"\x003.9.1\x003.8.18").as_deref(), None);
        assert_eq!(found(b"\x003.8.18 or later\x00"), None);
        assert_eq!(found(b"3.8.18\x00"), None);
    }

    proptest! {
        #[test]
        fn no_constants_make_it_panic(piece in any::<Vec<u8>>()) {
            VersionLiterals::default().scan(&piece);
        }

        #[test]
        fn no_name_makes_it_panic(name in "(lib)?(python)?[0-9.]{0,8}.*") {
            let _ = FileNameHints::parse(&name);
        }
    }
}
