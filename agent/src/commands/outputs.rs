//! The outputs of a command: profiles, each in all of the formats that are asked for.
//!
//! Invariants: no two are one file; one that cannot be written does not keep the others from being written.

use std::{io::Write, path::PathBuf};

use anyhow::Result;

use super::{
    failure,
    output::{Destination, Output, OutputError},
};
use crate::{
    formats::{EncodeOptions, Format, encode},
    profile::Profile,
};

/// Where to write, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedOutput {
    /// Where.
    pub destination: Destination,
    /// The format.
    pub format: Format,
}

/// Outputs that were writable when they were prepared: for each profile one of each format.
pub(super) struct Outputs(Vec<Vec<(Format, Output)>>);

impl Outputs {
    /// Those of one profile, whose default name has the process id `pid`.
    ///
    /// # Errors
    ///
    /// When one of them cannot be written.
    pub(super) fn prepare(wanted: &[WantedOutput], pid: u32) -> Result<Self, OutputError> {
        Self::of(wanted, pid, &[None])
    }

    /// Those of several profiles; where there is more than one, its word is in its names.
    ///
    /// # Errors
    ///
    /// When one of them cannot be written, or two are one file.
    pub(super) fn prepare_several(
        wanted: &[WantedOutput],
        pid: u32,
        words: &[&str],
    ) -> Result<Self, OutputError> {
        match words {
            [_] => Self::prepare(wanted, pid),
            words => {
                let words: Vec<_> = words.iter().copied().map(Some).collect();
                Self::of(wanted, pid, &words)
            }
        }
    }

    fn of(wanted: &[WantedOutput], pid: u32, words: &[Option<&str>]) -> Result<Self, OutputError> {
        let mut names = Vec::new();
        let mut all = Vec::new();
        for &word in words {
            let mut outputs = Vec::new();
            for &WantedOutput {
                ref destination,
                format,
            } in wanted
            {
                let output = Output::prepare(destination, format, pid, word)?;
                if let Some(identity) = output.identity() {
                    if names.contains(&identity) {
                        return Err(output.named_twice());
                    }
                    names.push(identity);
                }
                outputs.push((format, output));
            }
            all.push(outputs);
        }
        Ok(Self(all))
    }

    /// Encodes and writes the profiles, one for each that was prepared.
    pub(super) fn write(self, profiles: &[Profile], encoding: EncodeOptions) -> Written {
        let mut written = Written::default();
        for (profile, outputs) in profiles.iter().zip(self.0) {
            for (format, output) in outputs {
                match write(profile, format, encoding, output) {
                    Ok(path) => written.paths.extend(path),
                    Err(error) => written.failures.push(error),
                }
            }
        }
        written
    }
}

fn write(
    profile: &Profile,
    format: Format,
    encoding: EncodeOptions,
    output: Output,
) -> Result<Option<PathBuf>> {
    let mut bytes = Vec::new();
    encode(profile, format, encoding, &mut bytes)?;
    Ok(output.commit(&bytes)?)
}

/// What has become of outputs.
#[derive(Default)]
pub(super) struct Written {
    paths: Vec<PathBuf>,
    failures: Vec<anyhow::Error>,
}

impl Written {
    /// Lists the files that were written and the outputs that were not, all but the last one of these.
    ///
    /// # Errors
    ///
    /// That last one.
    pub(super) fn print(self, stderr: &mut impl Write) -> Result<()> {
        // Standard error may be closed; the files are written all the same.
        for path in self.paths {
            let _ = writeln!(stderr, "Written to {}", path.display());
        }
        let mut failures = self.failures;
        let last = failures.pop();
        for error in failures {
            let _ = writeln!(stderr, "{}", failure::text(&error));
        }
        last.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::profile::fixtures::example_profile;

    fn wanted(path: &Path, format: Format) -> WantedOutput {
        WantedOutput {
            destination: Destination::File(path.to_owned()),
            format,
        }
    }

    #[test]
    fn one_that_fails_does_not_lose_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a.svg", "b.folded"].map(|name| folder.path().join(name));
        let full = Path::new("/dev/full");
        let wanted = [
            wanted(full, Format::Pprof),
            wanted(&paths[0], Format::Svg),
            wanted(full, Format::Folded),
            wanted(&paths[1], Format::Folded),
        ];
        let outputs = Outputs::prepare(&wanted, 42).unwrap();
        let mut messages = Vec::new();
        let profile = example_profile("main.py");
        let written = outputs.write(&[profile], EncodeOptions::default());
        let error = written.print(&mut messages).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
        let messages = String::from_utf8(messages).unwrap();
        let lines: Vec<_> = messages.lines().collect();
        assert_eq!(lines.len(), 3, "{messages}");
        assert!(
            lines[2].starts_with("agent: cannot write '/dev/full'"),
            "{messages}"
        );
        for (path, line) in paths.iter().zip(lines) {
            assert_eq!(line, format!("Written to {}", path.display()));
            assert!(fs::metadata(path).unwrap().len() > 100);
        }
    }

    #[test]
    fn no_two_are_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, same) = (folder.path().join("a.svg"), folder.path().join("./a.svg"));
        let two = |paths: [&Path; 2], words: &[&str]| {
            let wanted = paths.map(|path| wanted(path, Format::Svg));
            Outputs::prepare_several(&wanted, 42, words).map(drop)
        };
        let error = two([&path, &same], &["cpu"]).unwrap_err();
        assert!(error.to_string().contains("is named twice"), "{error}");
        let other = folder.path().join("a.cpu.svg");
        two([&path, &other], &["cpu"]).unwrap();
        two([&path, &other], &["cpu", "wall"]).unwrap();
        let null = Path::new("/dev/null");
        two([null, null], &["cpu"]).unwrap();
    }
}
