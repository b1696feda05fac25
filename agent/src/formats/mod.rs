//! A profile as the bytes of a file: one module per format.
//!
//! Invariants: the same profile gives the same bytes; whatever stands in a name, the file stays
//! well-formed; nothing is opened, read or sent here.

mod folded;
pub mod frames;
pub mod losses;
mod pprof;
#[cfg(test)]
#[path = "../../tests/data/support.rs"]
pub(crate) mod support;
mod svg;

pub use pprof::{Head, ReadError, Unpacked};

use std::{
    fmt,
    io::{self, Write},
    path::Path,
};

#[cfg(test)]
use crate::profile;
use crate::profile::Profile;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What `go tool pprof`, Grafana Pyroscope, Parca and speedscope read: gzipped protobuf,
    /// whichever of its endings the file has.
    Pprof,
    /// One line per distinct stack, root first, with its samples: what `flamegraph.pl` reads.
    Folded,
    /// A flame graph, to be opened in a browser.
    Svg,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Pprof, Self::Folded, Self::Svg];

    /// What users call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pprof => "pprof",
            Self::Folded => "folded",
            Self::Svg => "svg",
        }
    }

    /// How names of its files end, without the dot, the usual ending first.
    #[must_use]
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Pprof => &["pb.gz", "pb", "pprof"],
            Self::Folded => &["folded", "collapsed", "txt"],
            Self::Svg => &["svg"],
        }
    }

    /// Whether its bytes are not text.
    #[must_use]
    pub fn is_binary(self) -> bool {
        self == Self::Pprof
    }

    /// The format of this [name](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format that a file's name ends in, whatever the case.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let ends_in = |ending: &&str| {
            name.strip_suffix(ending)
                .is_some_and(|stem| stem.ends_with('.'))
        };
        Self::ALL
            .into_iter()
            .find(|format| format.endings().iter().any(ends_in))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What a user may choose about a file's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether folded stacks and flame graphs begin with the thread; pprof tells it as a label.
    pub threads: bool,
    /// Whether samples of pprof have no labels: those of equal stacks are one, whichever threads
    /// and processes they are of.
    pub without_labels: bool,
}

/// A profile that could not be encoded.
#[derive(Debug, thiserror::Error)]
#[error("the {format} output could not be written")]
pub struct Error {
    /// The format.
    pub format: Format,
    /// What the writer said.
    pub source: io::Error,
}

/// Writes a profile in a format.
///
/// # Errors
///
/// When `out` fails.
pub fn encode(
    profile: &Profile,
    format: Format,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let written = match format {
        Format::Pprof => pprof::write(profile, *options, out),
        Format::Folded => folded::write(profile, *options, out),
        Format::Svg => svg::write(profile, *options, out),
    };
    written.map_err(|source| Error { format, source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{support::made_profile, *};

    #[test]
    fn the_same_profile_gives_the_same_bytes() {
        for format in Format::ALL {
            let encoded = || {
                let profile = made_profile("/srv/app/main.py");
                let mut bytes = Vec::new();
                encode(&profile, format, &Options::default(), &mut bytes).unwrap();
                bytes
            };
            assert_eq!(encoded(), encoded(), "{format}");
        }
    }

    #[test]
    fn a_profile_without_samples_can_be_encoded() {
        let mut profile = made_profile("/srv/app/main.py");
        profile.samples.clear();
        profile.duration = Duration::ZERO;
        for format in Format::ALL {
            encode(&profile, format, &Options::default(), &mut Vec::new()).unwrap();
        }
    }

    #[test]
    fn a_writer_that_fails_is_an_error() {
        let profile = made_profile("/srv/app/main.py");
        for format in Format::ALL {
            let mut no_room = [0; 8];
            let error =
                encode(&profile, format, &Options::default(), &mut &mut no_room[..]).unwrap_err();
            assert_eq!(error.format, format);
        }
    }

    #[test]
    fn a_format_is_known_by_its_name() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        assert_eq!(Format::from_name("html"), None);
    }

    #[test]
    fn a_format_is_known_by_the_ending_of_a_path() {
        let of = |path: &str| Format::from_path(Path::new(path));
        assert_eq!(of("/tmp/a.b/profile.pb.gz"), Some(Format::Pprof));
        assert_eq!(of("profile.pb"), Some(Format::Pprof));
        assert_eq!(of("profile.pprof"), Some(Format::Pprof));
        assert_eq!(of("x.FOLDED"), Some(Format::Folded));
        assert_eq!(of("x.collapsed"), Some(Format::Folded));
        assert_eq!(of("x.txt"), Some(Format::Folded));
        assert_eq!(of("x.svg"), Some(Format::Svg));
        assert_eq!(of("svg"), None);
        assert_eq!(of("x.gz"), None);
        assert_eq!(of("x.svg/y"), None);
        assert_eq!(of(".."), None);
    }
}
