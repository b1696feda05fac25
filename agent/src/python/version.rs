//! Version numbers of CPython, and where they are written.

use std::fmt;

/// A version of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// 2 or 3.
    pub major: u8,
    /// The second number, which decides about layouts.
    pub minor: u8,
    /// The third number and what follows, where it could be learned.
    pub micro: Option<Micro>,
}

/// The third number of a version and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micro {
    /// The number.
    pub number: u8,
    /// How finished it is.
    pub level: Level,
}

/// How finished a release is; the number counts the releases of this level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// New features still come.
    Alpha(u8),
    /// Features are complete, layouts may change.
    Beta(u8),
    /// Layouts are final.
    Candidate(u8),
    /// Released.
    Final,
}

impl Version {
    /// A version of which only this is known.
    #[must_use]
    pub const fn of_series(major: u8, minor: u8) -> Self {
        Self {
            major,
            minor,
            micro: None,
        }
    }

    /// Reads `PY_VERSION_HEX`.
    #[must_use]
    pub fn from_hex(hex: u64) -> Option<Self> {
        let [0, 0, 0, 0, major, minor, number, release] = hex.to_be_bytes() else {
            return None;
        };
        let serial = release & 0xf;
        let level = match release >> 4 {
            0xa => Level::Alpha(serial),
            0xb => Level::Beta(serial),
            0xc => Level::Candidate(serial),
            0xf => Level::Final,
            _ => return None,
        };
        matches!(major, 2 | 3).then_some(Self {
            major,
            minor,
            micro: Some(Micro { number, level }),
        })
    }

    /// Reads `PY_VERSION`, as in `3.12.1`, `3.13.0rc2` or `3.8.18+`.
    #[must_use]
    pub fn from_literal(literal: &str) -> Option<Self> {
        let literal = literal.strip_suffix('+').unwrap_or(literal);
        let (major, rest) = literal.split_once('.')?;
        let (minor, rest) = rest.split_once('.')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = rest.split_at(digits);
        let level = if rest.is_empty() {
            Level::Final
        } else if let Some(serial) = rest.strip_prefix("rc") {
            Level::Candidate(decimal(serial)?)
        } else if let Some(serial) = rest.strip_prefix('b') {
            Level::Beta(decimal(serial)?)
        } else {
            Level::Alpha(decimal(rest.strip_prefix('a')?)?)
        };
        let major = decimal(major)?;
        matches!(major, 2 | 3).then_some(Self {
            major,
            minor: decimal(minor)?,
            micro: Some(Micro {
                number: decimal(number)?,
                level,
            }),
        })
    }

    /// Whether both agree on what decides about layouts.
    #[must_use]
    pub const fn is_same_series(self, other: Self) -> bool {
        self.major == other.major && self.minor == other.minor
    }

    /// Whether layouts could still change after it.
    #[must_use]
    pub const fn is_before_candidate(self) -> bool {
        matches!(
            self.micro,
            Some(Micro {
                level: Level::Alpha(_) | Level::Beta(_),
                ..
            })
        )
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)?;
        let Some(Micro { number, level }) = self.micro else {
            return Ok(());
        };
        write!(formatter, ".{number}")?;
        match level {
            Level::Alpha(serial) => write!(formatter, "a{serial}"),
            Level::Beta(serial) => write!(formatter, "b{serial}"),
            Level::Candidate(serial) => write!(formatter, "rc{serial}"),
            Level::Final => Ok(()),
        }
    }
}

/// What the name of an executable or of a library says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The version.
    pub version: Version,
    /// Whether it is a debug build (`d`, `-dbg`).
    pub is_debug: bool,
    /// Whether it is a free-threaded build (`t`).
    pub is_free_threaded: bool,
}

impl Named {
    /// Reads names like `python3.8`, `python3.9-dbg`, `libpython3.6m.so.1.0`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
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

fn decimal(digits: &str) -> Option<u8> {
    // `parse` also takes a sign.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

/// Most bytes of a version literal.
const MAX_LITERAL: usize = 16;

/// Collects the strings of an image that look like `PY_VERSION`.
///
/// A linker lets one string be the end of another, so `3.8.18` may only exist as the end of
/// `/opt/3.8.18`; a string of its own counts more.
#[derive(Debug, Default)]
pub struct Literals {
    whole: Vec<Version>,
    ends: Vec<Version>,
}

impl Literals {
    /// Bytes by which the pieces given to [`look`](Self::look) must overlap.
    pub const OVERLAP: usize = MAX_LITERAL + 2;

    /// Most versions that are kept.
    const MOST: usize = 64;

    /// Looks through a piece of the image's constants.
    pub fn look(&mut self, piece: &[u8]) {
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
            let before = end
                .checked_sub(text.len() - start + 1)
                .and_then(|at| piece.get(at));
            let list = if before == Some(&0) {
                &mut self.whole
            } else {
                &mut self.ends
            };
            if !list.contains(&version) && list.len() < Self::MOST {
                list.push(version);
            }
        }
    }

    /// The only version among them that `fits`, if there is exactly one.
    #[must_use]
    pub fn only(&self, fits: impl Fn(Version) -> bool) -> Option<Version> {
        let pick = |list: &[Version]| {
            let mut fitting = list.iter().copied().filter(|&version| fits(version));
            match (fitting.next(), fitting.next()) {
                (only, None) => Ok(only),
                _ => Err(()),
            }
        };
        match pick(&self.whole) {
            Ok(Some(version)) => Some(version),
            Ok(None) => pick(&self.ends).ok().flatten(),
            Err(()) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Literals, Micro, Named, Version};
    use proptest::prelude::{any, proptest};

    fn version(literal: &str) -> Version {
        Version::from_literal(literal).unwrap()
    }

    #[test]
    fn the_hexadecimal_form_is_read() {
        assert_eq!(Version::from_hex(0x030c_01f0), Some(version("3.12.1")));
        assert_eq!(Version::from_hex(0x030b_00c1), Some(version("3.11.0rc1")));
        assert_eq!(Version::from_hex(0x030e_00a7), Some(version("3.14.0a7")));
        assert_eq!(Version::from_hex(0x1_030c_01f0), None);
        assert_eq!(Version::from_hex(0x030c_0110), None);
        assert_eq!(Version::from_hex(0), None);
    }

    #[test]
    fn a_version_reads_as_it_is_written() {
        for text in ["3.8.18", "3.11.0rc1", "3.13.0b4", "2.7.18", "3.14.0a7"] {
            assert_eq!(version(text).to_string(), text);
        }
        assert_eq!(version("3.8.18+").to_string(), "3.8.18");
        assert_eq!(Version::of_series(3, 9).to_string(), "3.9");
        for text in [
            "3.8", "3.8.", "3.8.x", "3.8.1c1", "3.8.+1", "4.0.0", "3.300.1",
        ] {
            assert_eq!(Version::from_literal(text), None, "{text}");
        }
        let micro = Micro {
            number: 0,
            level: Level::Beta(4),
        };
        assert_eq!(version("3.13.0b4").micro, Some(micro));
    }

    #[test]
    fn names_say_series_and_flavour() {
        let series = |name| Named::parse(name).map(|named| named.version.to_string());
        assert_eq!(series("python3.8").as_deref(), Some("3.8"));
        assert_eq!(series("libpython3.6m.so.1.0").as_deref(), Some("3.6"));
        assert_eq!(series("libpython3.so"), None);
        assert_eq!(series("python3"), None);
        assert_eq!(series("bash"), None);
        assert!(Named::parse("libpython3.12d.so.1.0").unwrap().is_debug);
        assert!(Named::parse("python3.9-dbg").unwrap().is_debug);
        assert!(Named::parse("python3.13t").unwrap().is_free_threaded);
        assert!(!Named::parse("python3.13").unwrap().is_free_threaded);
    }

    #[test]
    fn a_literal_is_found_also_as_the_end_of_a_path() {
        let fits = |version: Version| version.minor == 8;
        let found = |text: &[u8]| {
            let mut literals = Literals::default();
            literals.look(text);
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
    }

    proptest! {
        #[test]
        fn no_constants_make_it_panic(piece in any::<Vec<u8>>()) {
            Literals::default().look(&piece);
        }

        #[test]
        fn no_name_makes_it_panic(name in "(lib)?(python)?[0-9.]{0,8}.*") {
            let _ = Named::parse(&name);
            let _ = Version::from_literal(&name);
        }
    }
}
