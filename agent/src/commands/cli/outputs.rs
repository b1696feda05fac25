//! The outputs of a command line: which file has which format.

use std::path::PathBuf;

use super::options::UsageError;
use crate::{
    commands::{output::Destination, outputs::WantedOutput},
    formats::Format,
};

/// The outputs with these paths and formats; without paths a file with a default name for each format.
///
/// The formats are those of all paths, or of all whose extension says none, in the order of the command line.
pub(super) fn of(
    paths: Vec<PathBuf>,
    formats: Vec<Format>,
) -> Result<Vec<WantedOutput>, UsageError> {
    let mut destinations: Vec<_> = paths.into_iter().map(Destination::from).collect();
    let mut formats = formats;
    if destinations.is_empty() {
        let mut distinct = Vec::new();
        formats.retain(|format| {
            let is_new = !distinct.contains(format);
            distinct.push(*format);
            is_new
        });
        destinations.resize(formats.len().max(1), Destination::Unnamed);
    }
    let is_standard = |destination: &&Destination| **destination == Destination::StandardOutput;
    if destinations.iter().filter(is_standard).count() > 1 {
        return Err(UsageError::StandardOutputTwice);
    }
    let untold = destinations.iter().filter(|it| named(it).is_none()).count();
    let is_for_all = formats.len() == destinations.len();
    if !is_for_all && !formats.is_empty() && formats.len() != untold {
        return Err(UsageError::WhichFormat);
    }
    let mut formats = formats.into_iter();
    let output = |destination: Destination| {
        let format = match named(&destination).filter(|_| !is_for_all) {
            Some(format) => format,
            None => match formats.next() {
                Some(format) => format,
                None => default_format(&destination)?,
            },
        };
        Ok(WantedOutput {
            destination,
            format,
        })
    };
    destinations.into_iter().map(output).collect()
}

/// The same of stored profiles, which have no times.
pub(super) fn of_stored(
    paths: Vec<PathBuf>,
    formats: Vec<Format>,
) -> Result<Vec<WantedOutput>, UsageError> {
    let outputs = of(paths, formats)?;
    let mut formats = outputs.iter().map(|output| output.format);
    match formats.find(|format| format.needs_times()) {
        Some(format) => Err(UsageError::NoTimes { format }),
        None => Ok(outputs),
    }
}

/// The format that the extension of a file says.
fn named(destination: &Destination) -> Option<Format> {
    match destination {
        Destination::File(path) => Format::from_path(path),
        Destination::Unnamed | Destination::StandardOutput => None,
    }
}

/// The format of an output whose extension says none.
fn default_format(destination: &Destination) -> Result<Format, UsageError> {
    match destination {
        // Extensions of devices and folders mean nothing; that a folder is no output is reported later.
        Destination::File(path)
            if !path.starts_with("/dev") && !path.starts_with("/proc") && !path.is_dir() =>
        {
            Err(UsageError::UnknownExtension { path: path.clone() })
        }
        _ => Ok(Format::Pprof),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formats of files, given `-o` and `-f` each as words.
    fn formats(paths: &str, formats: &str) -> Result<Vec<Format>, UsageError> {
        let paths = paths.split_whitespace().map(PathBuf::from).collect();
        let formats = formats.split_whitespace();
        let formats = formats.map(|name| Format::from_name(name).unwrap());
        let outputs = of(paths, formats.collect())?;
        Ok(outputs.into_iter().map(|output| output.format).collect())
    }

    #[test]
    fn each_file_has_the_format_of_its_extension() {
        let two = Ok(vec![Format::Pprof, Format::Svg]);
        assert_eq!(formats("a.pb.gz b.svg", ""), two);
        assert_eq!(formats("- b.svg", ""), two);
        assert_eq!(formats("/dev/null b.svg", ""), two);
        assert!(matches!(
            formats("a.svg b.json", ""),
            Err(UsageError::UnknownExtension { path }) if path.as_os_str() == "b.json"
        ));
    }

    #[test]
    fn formats_are_of_all_files_or_of_those_whose_extension_says_none() {
        let named = |paths, given, expected: &[Format]| {
            assert_eq!(formats(paths, given).as_deref(), Ok(expected), "{paths}");
        };
        named("a.txt", "svg", &[Format::Svg]);
        named("a.txt b.svg", "svg folded", &[Format::Svg, Format::Folded]);
        named("a.svg -", "folded", &[Format::Svg, Format::Folded]);
        named(
            "x a.svg y",
            "folded pprof",
            &[Format::Folded, Format::Svg, Format::Pprof],
        );
        for (paths, given) in [
            ("a.svg b.txt", "pprof"),
            ("a.svg x y", "pprof"),
            ("a.svg", "pprof svg"),
        ] {
            let error = formats(paths, given).unwrap_err();
            assert_eq!(error, UsageError::WhichFormat, "{paths}");
        }
    }

    #[test]
    fn without_a_file_each_format_has_one() {
        assert_eq!(formats("", ""), Ok(vec![Format::Pprof]));
        let two = Ok(vec![Format::Svg, Format::Folded]);
        assert_eq!(formats("", "svg folded svg"), two);
    }

    #[test]
    fn standard_output_is_one() {
        assert_eq!(formats("- -", ""), Err(UsageError::StandardOutputTwice));
        let error = formats("a.svg - /dev/stdout", "svg svg svg").unwrap_err();
        assert_eq!(error, UsageError::StandardOutputTwice);
    }
}
