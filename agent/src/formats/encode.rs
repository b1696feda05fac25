//! Encodes a profile in any of the formats.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use super::{
    callgrind, cpuprofile, folded, format::Format, options::EncodeOptions, pprof, speedscope, svg,
};
use crate::profile::Profile;

/// A profile that could not be encoded.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the {format} output")]
pub struct EncodeError {
    /// The format.
    pub format: Format,
    /// Error of the writer.
    pub source: io::Error,
}

/// Encodes a profile in a format.
///
/// # Errors
///
/// When `out` fails.
pub fn encode(
    profile: &Profile,
    format: Format,
    options: EncodeOptions,
    out: &mut dyn Write,
) -> Result<(), EncodeError> {
    let profile = if options.internals.are_in(format) {
        Cow::Borrowed(profile)
    } else {
        Cow::Owned(profile.without_internals())
    };
    let written = match format {
        Format::Pprof => pprof::write(&profile, options, out),
        Format::Folded => folded::write(&profile, options, out),
        Format::Svg => svg::write(&profile, options, out),
        Format::Callgrind => callgrind::write(&profile, options, out),
        Format::CpuProfile => cpuprofile::write(&profile, options, out),
        Format::Speedscope => speedscope::write(&profile, options, out),
    };
    written.map_err(|source| EncodeError { format, source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::profile::fixtures::example_profile;

    #[test]
    fn the_same_profile_gives_the_same_bytes() {
        for format in Format::ALL {
            let encoded = || {
                let profile = example_profile("/srv/app/main.py");
                let mut bytes = Vec::new();
                encode(&profile, format, EncodeOptions::default(), &mut bytes).unwrap();
                bytes
            };
            assert_eq!(encoded(), encoded(), "{format}");
        }
    }

    #[test]
    fn a_profile_without_samples_can_be_encoded() {
        let mut profile = example_profile("/srv/app/main.py");
        profile.samples.clear();
        profile.duration = Duration::ZERO;
        for format in Format::ALL {
            encode(&profile, format, EncodeOptions::default(), &mut Vec::new()).unwrap();
        }
    }

    #[test]
    fn a_writer_that_fails_is_an_error() {
        let profile = example_profile("/srv/app/main.py");
        for format in Format::ALL {
            let mut no_room = [0; 8];
            let error = encode(
                &profile,
                format,
                EncodeOptions::default(),
                &mut &mut no_room[..],
            )
            .unwrap_err();
            assert_eq!(error.format, format);
        }
    }
}
