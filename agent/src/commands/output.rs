//! The output of a command.
//!
//! Invariants: it is checked before sampling begins; a file appears under its name when it is
//! complete, never before, and until then an older one of that name stays; a file with a default name
//! replaces none; an agent that is killed while it samples leaves nothing. Pipes and devices are written directly.
//!
//! A profile shows paths, names and functions of other users' programs, so that a new file is readable
//! by its owner only: under `sudo` that is the user who called it. What another user has put in the
//! place of a file gets neither its bytes nor its name: links are followed by the kernel, which
//! refuses those of others in sticky folders (`fs.protected_symlinks`), and the folder is opened once.

mod destination;
mod error;
mod folder;
mod part_file;
#[cfg(test)]
mod tests;

pub use self::{destination::Destination, error::OutputError};

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    os::{fd::AsFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FileType, OFlags};

use self::{
    folder::{OpenFolder, descriptor, open_path},
    part_file::{NumberedName, PartFile, number, replace},
};
use super::standard_output::delivery;
use crate::formats::Format;

/// An output that was writable when it was prepared.
#[derive(Debug)]
pub struct Output(Kind);

#[derive(Debug)]
enum Kind {
    /// Written as `part`, then moved to `path`, which may be there already.
    Replaced {
        part: PartFile,
        folder: OpenFolder,
        path: PathBuf,
    },
    /// Written as `part`, then moved to the first free of its numbered names.
    Numbered { part: PartFile, name: NumberedName },
    /// Written as it comes.
    Direct { file: File, path: PathBuf },
    /// Written as it comes.
    StandardOutput,
}

impl Output {
    /// Checks that the output can be written, without changing what is there; a default name has the
    /// process id `pid`. The name of one of several has a `word` of its own.
    ///
    /// # Errors
    ///
    /// When it cannot be written, or is a terminal and the format is binary.
    pub fn prepare(
        destination: &Destination,
        format: Format,
        pid: u32,
        word: Option<&str>,
    ) -> Result<Self, OutputError> {
        let kind = match destination {
            Destination::Unnamed => {
                let dot = if word.is_some() { "." } else { "" };
                let stem = format!("agent-{pid}{dot}{}", word.unwrap_or_default());
                prepare_numbered(Path::new(""), format, &stem)?
            }
            Destination::File(path) => match word {
                Some(word) => prepare_file(&with_word(path, word))?,
                None => prepare_file(path)?,
            },
            Destination::StandardOutput => Kind::StandardOutput,
        };
        let is_terminal = match &kind {
            Kind::Direct { file, .. } => file.is_terminal(),
            Kind::StandardOutput => io::stdout().is_terminal(),
            Kind::Replaced { .. } | Kind::Numbered { .. } => false,
        };
        if is_terminal && format.is_binary() {
            return Err(OutputError::Terminal { format });
        }
        Ok(Self(kind))
    }

    /// What no other output may be; [`None`] where that does no harm.
    #[must_use]
    pub(super) fn identity(&self) -> Option<Identity> {
        let name = match &self.0 {
            Kind::Replaced { path, .. } => path.file_name().map(OsStr::to_owned),
            _ => None,
        };
        let (file, is_device) = match &self.0 {
            Kind::Replaced { folder, .. } => identity_of(&folder.0)?,
            Kind::Direct { file, .. } => identity_of(file)?,
            Kind::StandardOutput => identity_of(&io::stdout())?,
            Kind::Numbered { .. } => return None,
        };
        (!is_device).then_some(Identity { file, name })
    }

    /// The error of two outputs that are this file.
    #[must_use]
    pub(super) fn named_twice(&self) -> OutputError {
        let path = match &self.0 {
            Kind::Replaced { path, .. } | Kind::Direct { path, .. } => path.clone(),
            Kind::StandardOutput => "standard output".into(),
            Kind::Numbered { name, .. } => name.path(1),
        };
        OutputError::Twice { path }
    }

    /// Writes the output; returns the path of the file if there is one.
    ///
    /// # Errors
    ///
    /// When it cannot be written after all.
    pub fn commit(self, bytes: &[u8]) -> Result<Option<PathBuf>, OutputError> {
        match self.0 {
            Kind::Replaced { part, folder, path } => replace(part, &folder.entry(&path), bytes)
                .map_err(|source| OutputError::Write {
                    path: path.clone(),
                    source,
                })
                .map(|()| Some(path)),
            Kind::Numbered { part, name } => number(part, &name, bytes).map(Some),
            Kind::Direct { mut file, path } => match file.write_all(bytes) {
                Ok(()) => Ok(Some(path)),
                Err(source) => Err(OutputError::Write { path, source }),
            },
            Kind::StandardOutput => {
                let mut out = io::stdout().lock();
                let written = out.write_all(bytes).and_then(|()| out.flush());
                delivery(written).map_err(|source| OutputError::Write {
                    path: "standard output".into(),
                    source,
                })?;
                Ok(None)
            }
        }
    }
}

/// What an output is, whatever it is called.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Device and inode of the file, or of its folder.
    file: (u64, u64),
    /// The name of the file in that folder.
    name: Option<OsString>,
}

/// Device and inode of a file, and whether it is a device such as `/dev/null`.
fn identity_of(file: &impl AsFd) -> Option<((u64, u64), bool)> {
    let status = rustix::fs::fstat(file).ok()?;
    let is_device = FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice;
    Some(((status.st_dev, status.st_ino), is_device))
}

/// The path with a word before its extension: `a/b.pb.gz` becomes `a/b.wall.pb.gz`.
fn with_word(path: &Path, word: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let endings = Format::ALL.into_iter().flat_map(Format::endings);
    let is_ending = |ending: &&&str| {
        let before = name.strip_suffix(ending.as_bytes());
        before.is_some_and(|before| before.len() > 1 && before.ends_with(b"."))
    };
    let ending = endings.filter(is_ending).max_by_key(|ending| ending.len());
    let bytes = ending.map_or(0, |ending| ending.len() + 1);
    let (before, ending) = name.split_at(name.len() - bytes);
    let name = [before, b".", word.as_bytes(), ending].concat();
    path.with_file_name(OsStr::from_bytes(&name))
}

fn prepare_numbered(folder: &Path, format: Format, stem: &str) -> Result<Kind, OutputError> {
    Ok(Kind::Numbered {
        part: PartFile::create(folder, folder)?,
        name: NumberedName {
            stem: folder.join(stem),
            ending: format.endings()[0],
        },
    })
}

fn prepare_file(path: &Path) -> Result<Kind, OutputError> {
    let is_folder = || OutputError::IsFolder { path: path.into() };
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(is_folder());
    }
    let failed = |source| OutputError::Open {
        path: path.into(),
        source,
    };
    let old = match open_path(path, OFlags::empty()) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let metadata = old.as_ref().map(File::metadata);
    let metadata = metadata.transpose().map_err(failed)?;
    if metadata.as_ref().is_some_and(fs::Metadata::is_dir) {
        return Err(is_folder());
    }
    // What stands in these folders are descriptors: moving a file there would not reach them.
    let is_descriptor = path.starts_with("/proc") || path.starts_with("/dev/fd");
    if is_descriptor
        || metadata
            .as_ref()
            .is_some_and(|metadata| !metadata.is_file())
    {
        let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
        return Ok(Kind::Direct {
            file,
            path: path.into(),
        });
    }

    // Through links: the file they lead to is replaced, not the link.
    let real = old.map(|old| fs::read_link(descriptor(&old)));
    let path = real.transpose().map_err(failed)?.unwrap_or(path.into());
    let parent = path.parent().unwrap_or(&path);
    let folder = OpenFolder::open(parent)?;
    Ok(Kind::Replaced {
        part: PartFile::create(&descriptor(&folder.0), parent)?,
        folder,
        path,
    })
}
