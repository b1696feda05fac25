//! Encodes a profile in any of the formats.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use super::{
    callgrind, chrome, cpuprofile, firefox, folded, format::Format, jsonl, options::EncodeOptions,
    perf_script, pprof, shown_frame::FrameTable, speedscope, svg,
};
use crate::profile::{LineNumbers, Profile};

/// A profile that could not be encoded.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the {format} output")]
pub struct EncodeError {
    /// The format.
    pub format: Format,
    /// Error of the writer.
    pub source: io::Error,
}

/// A profile has no timeline.
#[derive(Debug, thiserror::Error)]
#[error("the profile does not say when its samples were taken")]
struct Timeless;

/// Encodes a profile in a format.
///
/// # Errors
///
/// When `out` fails, or the format [needs times](Format::needs_times) and the profile has no timeline.
pub fn encode(
    profile: &Profile,
    format: Format,
    options: EncodeOptions,
    out: &mut dyn Write,
) -> Result<(), EncodeError> {
    if format.needs_times() && profile.timeline.is_none() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, Timeless);
        return Err(EncodeError { format, source });
    }
    let profile = if options.internals.are_in(format) {
        Cow::Borrowed(profile)
    } else {
        Cow::Owned(profile.without_internals())
    };
    let profile = match options.line_numbers {
        LineNumbers::Current => profile,
        numbers => Cow::Owned(profile.with_line_numbers(numbers)),
    };
    let with_frames = |write: &mut dyn FnMut(&FrameTable<'_>) -> io::Result<()>| {
        let names = options.function_names.of(&profile);
        write(&FrameTable::new(&profile, &names, options))
    };
    let written = match format {
        Format::Pprof => pprof::write(&profile, options, out),
        Format::Folded => folded::write(&profile, options, out),
        Format::Svg => svg::write(&profile, options, out),
        Format::Callgrind => with_frames(&mut |table| callgrind::write(table, options, out)),
        Format::Chrome => with_frames(&mut |table| chrome::write(table, out)),
        Format::Firefox => with_frames(&mut |table| firefox::write(table, out)),
        Format::PerfScript => with_frames(&mut |table| perf_script::write(table, out)),
        Format::JsonLines => with_frames(&mut |table| jsonl::write(table, out)),
        Format::CpuProfile => with_frames(&mut |table| cpuprofile::write(table, options, out)),
        Format::Speedscope => with_frames(&mut |table| speedscope::write(table, out)),
    };
    written.map_err(|source| EncodeError { format, source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::profile::Timeline;

    use super::*;
    use crate::profile::fixtures::{example_profile, timed};

    #[test]
    fn the_same_profile_gives_the_same_bytes() {
        for format in Format::ALL {
            let encoded = || {
                let profile = timed(example_profile("/srv/app/main.py"));
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
        profile.timeline = Some(Timeline::default());
        profile.duration = Duration::ZERO;
        for format in Format::ALL {
            encode(&profile, format, EncodeOptions::default(), &mut Vec::new()).unwrap();
        }
    }

    #[test]
    fn some_formats_need_times() {
        let profile = example_profile("/srv/app/main.py");
        for format in Format::ALL {
            let encoded = encode(&profile, format, EncodeOptions::default(), &mut Vec::new());
            assert_eq!(encoded.is_err(), format.needs_times(), "{format}");
        }
    }

    #[test]
    fn lines_and_paths_are_as_they_are_asked_for() {
        let profile = timed(example_profile("/srv/app/main.py"));
        let text = |format, line_numbers, full_file_names| {
            let options = EncodeOptions {
                line_numbers,
                full_file_names,
                ..EncodeOptions::default()
            };
            let mut bytes = Vec::new();
            encode(&profile, format, options, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        for (format, current, first, hidden) in [
            (
                Format::Folded,
                "fib (/srv/app/main.py:10);fib",
                "fib (/srv/app/main.py:7);fib",
                "fib (/srv/app/main.py);fib",
            ),
            (
                Format::Svg,
                "fib (/srv/app/main.py:10)",
                "fib (/srv/app/main.py:7)",
                "fib (/srv/app/main.py) ",
            ),
            (
                Format::Speedscope,
                "\"fib (main.py:10)\"",
                "\"fib (main.py:7)\"",
                "\"fib (main.py)\"",
            ),
            (
                Format::PerfScript,
                "fib (/srv/app/main.py:10)",
                "fib (/srv/app/main.py:7)",
                "fib (/srv/app/main.py)",
            ),
        ] {
            let of = |numbers| text(format, numbers, false);
            for (numbers, wanted) in [
                (LineNumbers::Current, current),
                (LineNumbers::First, first),
                (LineNumbers::Hidden, hidden),
            ] {
                let text = of(numbers);
                assert!(text.contains(wanted), "{format}: {wanted} in {text}");
                let is_current = numbers == LineNumbers::Current;
                assert_eq!(text.contains(current), is_current, "{format}: {text}");
            }
        }
        for format in [Format::Speedscope, Format::Chrome, Format::Firefox] {
            let full = text(format, LineNumbers::Current, true);
            let short = text(format, LineNumbers::Current, false);
            let label = "\"fib (/srv/app/main.py";
            assert!(full.contains(label) && !short.contains(label), "{full}");
        }
    }

    #[test]
    fn a_writer_that_fails_is_an_error() {
        let profile = timed(example_profile("/srv/app/main.py"));
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
