//! Profiles that the agent has written: what of pprof the bench reads.
//!
//! Field numbers: <https://github.com/google/pprof/blob/main/proto/profile.proto>. Invariant: read
//! with messages of its own, so that an error of the agent's writer shows.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;
use prost::Message as _;

/// The file.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::commands) struct Profile {
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    strings: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comments: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    file: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<Line>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
}

/// A function at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands) struct Frame {
    pub(in crate::commands) name: String,
    /// Zero when it is not known.
    pub(in crate::commands) line: u32,
}

/// Code of a file that was on a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands) struct Code {
    pub(in crate::commands) file: String,
    pub(in crate::commands) build_id: String,
    /// In the file's own address space.
    pub(in crate::commands) address: u64,
    /// The innermost inlined function first; none when there is no name.
    pub(in crate::commands) frames: Vec<Frame>,
    /// Frames of samples at this address.
    pub(in crate::commands) count: u64,
}

impl Profile {
    pub(in crate::commands) fn read(path: &Path) -> Result<Self> {
        let read = || -> Result<Self> {
            let mut bytes = Vec::new();
            GzDecoder::new(File::open(path)?).read_to_end(&mut bytes)?;
            Ok(Self::decode(&*bytes)?)
        };
        read().with_context(|| format!("cannot read {}", path.display()))
    }

    /// When sampling began, since 1970.
    pub(in crate::commands) fn start(&self) -> Duration {
        Duration::from_nanos(self.time_nanos.try_into().unwrap_or(0))
    }

    /// For how long samples were taken.
    pub(in crate::commands) fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_nanos.try_into().unwrap_or(0))
    }

    /// Time between two samples.
    pub(in crate::commands) fn period(&self) -> Duration {
        Duration::from_nanos(self.period.try_into().unwrap_or(0))
    }

    /// All samples.
    pub(in crate::commands) fn count(&self) -> u64 {
        self.samples.iter().map(Sample::count).sum()
    }

    /// The value of a label of the whole profile.
    pub(in crate::commands) fn label(&self, name: &str) -> Option<&str> {
        let mut comments = self.comments.iter().map(|&index| self.text(index));
        comments.find_map(|text| {
            text.strip_prefix("label ")?
                .strip_prefix(name)?
                .strip_prefix('=')
        })
    }

    /// Whether it is of this service.
    pub(in crate::commands) fn is_of(&self, service: &str) -> bool {
        self.label("service_name") == Some(service)
    }

    /// The code of files on the stacks; without the kernel, the vDSO and interpreted code.
    pub(in crate::commands) fn code(&self) -> Vec<Code> {
        // Ids are 1, 2, 3 … in a file of the agent's; elsewhere a sample is not counted.
        let mut counts = vec![0; self.locations.len()];
        for sample in &self.samples {
            for &id in &sample.locations {
                if let Some(count) = position(id).and_then(|index| counts.get_mut(index)) {
                    *count += sample.count();
                }
            }
        }
        let code = self.locations.iter().filter_map(|location| {
            let mapping = self.mappings.get(position(location.mapping)?)?;
            let file = self.text(mapping.file);
            if location.address == 0 || !file.starts_with('/') {
                return None;
            }
            let frames = location.lines.iter().map(|line| Frame {
                name: self.function(line.function).to_owned(),
                line: line.line.try_into().unwrap_or(0),
            });
            Some(Code {
                file: file.to_owned(),
                build_id: self.text(mapping.build_id).to_owned(),
                address: location.address,
                frames: frames.filter(|frame| !frame.name.is_empty()).collect(),
                count: *counts.get(position(location.id)?)?,
            })
        });
        code.collect()
    }

    fn function(&self, id: u64) -> &str {
        let function = position(id).and_then(|index| self.functions.get(index));
        function.map_or("", |function| self.text(function.name))
    }

    fn text(&self, index: i64) -> &str {
        let index = usize::try_from(index).ok();
        index
            .and_then(|index| self.strings.get(index))
            .map_or("", |text| text)
    }
}

impl Sample {
    fn count(&self) -> u64 {
        let count = self.values.first().copied().unwrap_or(0);
        count.try_into().unwrap_or(0)
    }
}

fn position(id: u64) -> Option<usize> {
    usize::try_from(id).ok()?.checked_sub(1)
}

#[cfg(test)]
pub(in crate::commands) mod tests {
    use super::*;

    /// A profile with two samples in a file, of which one address has a name, and one in the kernel.
    pub(in crate::commands) fn example() -> Profile {
        let texts = ["", "/bin/x", "[kernel]", "f", "g", "label service_name=x"];
        let mapping = |id, file| Mapping {
            id,
            file,
            build_id: 0,
        };
        let location = |id, mapping, address, lines: &[(u64, i64)]| Location {
            id,
            mapping,
            address,
            lines: lines
                .iter()
                .map(|&(function, line)| Line { function, line })
                .collect(),
        };
        Profile {
            samples: vec![
                Sample {
                    locations: vec![1, 2],
                    values: vec![3, 30],
                },
                Sample {
                    locations: vec![3, 2],
                    values: vec![2, 20],
                },
            ],
            mappings: vec![mapping(1, 1), mapping(2, 2)],
            locations: vec![
                location(1, 1, 16, &[]),
                location(2, 1, 32, &[(1, 7), (2, 0)]),
                location(3, 2, 48, &[(1, 0)]),
            ],
            functions: vec![Function { id: 1, name: 3 }, Function { id: 2, name: 4 }],
            strings: texts.map(str::to_owned).into(),
            time_nanos: 5_000_000_000,
            duration_nanos: 1_000_000_000,
            period: 10_000_000,
            comments: vec![5],
        }
    }

    #[test]
    fn code_of_files_is_counted() {
        let bytes = example().encode_to_vec();
        let profile = Profile::decode(&*bytes).unwrap();
        assert_eq!(profile.count(), 5);
        assert!(profile.is_of("x") && !profile.is_of("y"));
        assert_eq!(profile.start() + profile.duration(), Duration::from_secs(6));
        let code = profile.code();
        assert_eq!(code.len(), 2);
        assert_eq!((code[0].address, code[0].count), (16, 3));
        assert!(code[0].frames.is_empty());
        assert_eq!((code[1].address, code[1].count), (32, 5));
        assert_eq!(code[1].frames[0].line, 7);
        assert_eq!(code[1].frames[1].name, "g");
    }
}
