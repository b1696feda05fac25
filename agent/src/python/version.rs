//! Version numbers of CPython.

use std::fmt;

/// A version of CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// 2 or 3.
    pub major: u8,
    /// The second number; layouts are the same within a minor version.
    pub minor: u8,
    /// The third number and the release level; [`None`] where unknown.
    pub micro: Option<Micro>,
}

/// The third number of a version and its release level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micro {
    /// The number.
    pub number: u8,
    /// Its release level.
    pub level: ReleaseLevel,
}

/// The release level, as in `sys.version_info`; the number is the serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseLevel {
    /// Alpha: before the feature freeze.
    Alpha(u8),
    /// Beta: features are frozen, layouts may change.
    Beta(u8),
    /// Release candidate: layouts are final.
    Candidate(u8),
    /// Final release.
    Final,
}

impl Version {
    /// A version whose micro number is unknown.
    #[must_use]
    pub const fn of_series(major: u8, minor: u8) -> Self {
        Self {
            major,
            minor,
            micro: None,
        }
    }

    /// Parses `PY_VERSION_HEX`; [`None`] when it is not of CPython 2 or 3.
    #[must_use]
    pub fn from_hex(hex: u64) -> Option<Self> {
        let [0, 0, 0, 0, major, minor, number, release] = hex.to_be_bytes() else {
            return None;
        };
        let serial = release & 0xf;
        let level = match release >> 4 {
            0xa => ReleaseLevel::Alpha(serial),
            0xb => ReleaseLevel::Beta(serial),
            0xc => ReleaseLevel::Candidate(serial),
            0xf => ReleaseLevel::Final,
            _ => return None,
        };
        matches!(major, 2 | 3).then_some(Self {
            major,
            minor,
            micro: Some(Micro { number, level }),
        })
    }

    /// Parses `PY_VERSION`, as in `3.12.1`, `3.13.0rc2` or `3.8.18+`.
    #[must_use]
    pub fn from_literal(literal: &str) -> Option<Self> {
        let literal = literal.strip_suffix('+').unwrap_or(literal);
        let (major, rest) = literal.split_once('.')?;
        let (minor, rest) = rest.split_once('.')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = rest.split_at(digits);
        let level = if rest.is_empty() {
            ReleaseLevel::Final
        } else if let Some(serial) = rest.strip_prefix("rc") {
            ReleaseLevel::Candidate(decimal(serial)?)
        } else if let Some(serial) = rest.strip_prefix('b') {
            ReleaseLevel::Beta(decimal(serial)?)
        } else {
            ReleaseLevel::Alpha(decimal(rest.strip_prefix('a')?)?)
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

    /// Whether major and minor number are the same.
    #[must_use]
    pub const fn is_same_series(self, other: Self) -> bool {
        self.major == other.major && self.minor == other.minor
    }

    /// Whether it is an alpha or beta release, after which layouts may change.
    #[must_use]
    pub const fn is_before_candidate(self) -> bool {
        matches!(
            self.micro,
            Some(Micro {
                level: ReleaseLevel::Alpha(_) | ReleaseLevel::Beta(_),
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
            ReleaseLevel::Alpha(serial) => write!(formatter, "a{serial}"),
            ReleaseLevel::Beta(serial) => write!(formatter, "b{serial}"),
            ReleaseLevel::Candidate(serial) => write!(formatter, "rc{serial}"),
            ReleaseLevel::Final => Ok(()),
        }
    }
}

/// Parses a number that consists of digits only.
pub(super) fn decimal(digits: &str) -> Option<u8> {
    // `parse` also accepts a sign.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::{Micro, ReleaseLevel, Version};
    use proptest::prelude::proptest;

    fn version(literal: &str) -> Version {
        Version::from_literal(literal).unwrap()
    }

    #[test]
    fn the_hexadecimal_form_is_parsed() {
        assert_eq!(Version::from_hex(0x030c_01f0), Some(version("3.12.1")));
        assert_eq!(Version::from_hex(0x030b_00c1), Some(version("3.11.0rc1")));
        assert_eq!(Version::from_hex(0x030e_00a7), Some(version("3.14.0a7")));
        assert_eq!(Version::from_hex(0x1_030c_01f0), None);
        assert_eq!(Version::from_hex(0x030c_0110), None);
        assert_eq!(Version::from_hex(0), None);
    }

    #[test]
    fn a_version_is_displayed_as_it_is_parsed() {
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
            level: ReleaseLevel::Beta(4),
        };
        assert_eq!(version("3.13.0b4").micro, Some(micro));
    }

    proptest! {
        #[test]
        fn no_literal_makes_it_panic(literal in "[0-9.]{0,8}.*") {
            let _ = Version::from_literal(&literal);
        }
    }
}
