//! The format of recorded sessions: the inputs of [`Stages`](super::Stages) in their order.
//!
//! A file is a sequence of entries. An entry is a letter, the length of its contents as a
//! little-endian 32-bit number, and the contents: a record of the ring buffer, or JSON.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::profile::{Image, Process};

/// A part of a recording.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A record of the ring buffer.
    Record(Vec<u8>),
    /// A process event, at the time when the session acted on it.
    Event(RecordedEvent),
    /// A process that was examined or forked.
    Finding(RecordedFinding),
    /// The number that an executable file has in records.
    Executable(RecordedExecutable),
    /// The counters of the BPF programs; the last entry is used.
    Counters(Vec<u64>),
}

/// A process event.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// Its kind.
    pub kind: u32,
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
}

/// An executable file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedExecutable {
    /// Its number.
    pub number: u32,
    /// Its path.
    pub path: PathBuf,
}

/// A process that was examined or forked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedFinding {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub parent: Option<u32>,
    /// Its comm.
    pub name: String,
    /// Its executable.
    pub executable: PathBuf,
    /// Whether it runs Python.
    pub is_python: bool,
    /// Its interpreter.
    pub runtime: String,
    /// Files that are mapped executable: start, end, offset, path, build ID.
    pub images: Vec<(u64, u64, u64, PathBuf, Option<String>)>,
    /// Its files in `/proc` by their names, with the target of the link `exe`; [`None`] if it was
    /// forked and not examined.
    pub files: Option<Vec<(String, String)>>,
}

impl RecordedFinding {
    /// From the process of a profile.
    #[must_use]
    pub fn new(process: &Process, files: Option<Vec<(String, String)>>) -> Self {
        let image = |image: &Image| {
            let Image {
                start,
                end,
                file_offset,
                path,
                build_id,
            } = image.clone();
            (start, end, file_offset, path, build_id)
        };
        Self {
            pid: process.pid,
            parent: process.parent,
            name: process.name.clone(),
            executable: process.executable.clone(),
            is_python: process.is_python,
            runtime: process.runtime.clone(),
            images: process.images.iter().map(image).collect(),
            files,
        }
    }

    /// The process of a profile.
    #[must_use]
    pub fn process(&self) -> Process {
        let images = self.images.iter().cloned();
        Process {
            pid: self.pid,
            parent: self.parent,
            name: self.name.clone(),
            executable: self.executable.clone(),
            is_python: self.is_python,
            runtime: self.runtime.clone(),
            images: images
                .map(|(start, end, file_offset, path, build_id)| Image {
                    start,
                    end,
                    file_offset,
                    path,
                    build_id,
                })
                .collect(),
        }
    }
}

impl Entry {
    /// Writes it.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (letter, bytes) = match self {
            Self::Record(bytes) => (b'R', bytes.clone()),
            Self::Event(event) => (b'E', serde_json::to_vec(event)?),
            Self::Finding(finding) => (b'F', serde_json::to_vec(finding)?),
            Self::Executable(executable) => (b'X', serde_json::to_vec(executable)?),
            Self::Counters(counters) => (b'C', serde_json::to_vec(counters)?),
        };
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let head = [&[letter][..], &length.to_le_bytes()].concat();
        out.write_all(&[head, bytes].concat())
    }

    /// Reads all entries.
    ///
    /// # Errors
    ///
    /// When they cannot be read or are not valid.
    pub fn read_all(mut from: impl Read) -> io::Result<Vec<Self>> {
        let mut entries = Vec::new();
        let mut letter = [0];
        while from.read(&mut letter)? == 1 {
            let mut length = [0; 4];
            from.read_exact(&mut length)?;
            let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
            from.read_exact(&mut bytes)?;
            entries.push(match letter[0] {
                b'R' => Self::Record(bytes),
                b'E' => Self::Event(serde_json::from_slice(&bytes)?),
                b'F' => Self::Finding(serde_json::from_slice(&bytes)?),
                b'X' => Self::Executable(serde_json::from_slice(&bytes)?),
                b'C' => Self::Counters(serde_json::from_slice(&bytes)?),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            });
        }
        Ok(entries)
    }
}
