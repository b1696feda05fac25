//! The output of a command.
//!
//! Invariants: it is checked before sampling begins; a file appears under its name when it is
//! complete, never before, and until then an older one of that name stays; a file with a default name
//! replaces none. Pipes and devices are written directly.
//!
//! A profile shows paths, names and functions of other users' programs, so that a new file is readable
//! by its owner only: under `sudo` that is the user who called it. What another user has put in the
//! place of a file gets neither its bytes nor its name: links are followed by the kernel, which
//! refuses those of others in sticky folders (`fs.protected_symlinks`), and the folder is opened once.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions, Permissions},
    io::{self, IsTerminal as _, Write as _},
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, Mode, OFlags},
    process::{getegid, geteuid},
};
use tempfile::NamedTempFile;

use super::standard_output::delivery;
use crate::formats::Format;

/// Numbers tried for a file with a default name.
const MAX_UNNAMED: u32 = 9_999;

/// Where to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The default: a file in the current folder, named after the process.
    Unnamed,
    /// This file.
    File(PathBuf),
    /// Standard output.
    StandardOutput,
}

impl Destination {
    /// Whether each of several profiles can have a file of its own.
    #[must_use]
    pub fn can_have_several_files(&self) -> bool {
        match self {
            Self::Unnamed => true,
            Self::File(path) => !path.starts_with("/dev") && !path.starts_with("/proc"),
            Self::StandardOutput => false,
        }
    }
}

impl From<PathBuf> for Destination {
    fn from(path: PathBuf) -> Self {
        match path.to_str() {
            Some("-" | "/dev/stdout") => Self::StandardOutput,
            _ => Self::File(path),
        }
    }
}

/// An output that was writable when it was prepared.
#[derive(Debug)]
pub struct Output(Kind);

#[derive(Debug)]
enum Kind {
    /// Written as `temporary`, then moved to `path`, which may be there already.
    Replaced {
        temporary: NamedTempFile,
        folder: OpenFolder,
        path: PathBuf,
    },
    /// Written as `temporary`, then moved to the first free of its numbered names.
    Numbered {
        temporary: NamedTempFile,
        name: NumberedName,
    },
    /// Written as it comes.
    Direct { file: File, path: PathBuf },
    /// Written as it comes.
    StandardOutput,
}

/// Why an output cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Standard output is a terminal and the format is binary.
    #[error(
        "{format} is binary and would garble the terminal: name a file with -o, or add -f folded"
    )]
    Terminal {
        /// The format.
        format: Format,
    },
    /// The path is a folder.
    #[error("'{}' is a folder: name a file in it", path.display())]
    IsFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder of the file does not exist.
    #[error("there is no folder '{}': create it, or name another with -o", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// Nothing can be created in the folder.
    #[error("cannot create a file in '{}' ({source}): name another folder with -o", folder.display())]
    Create {
        /// The folder.
        folder: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The file cannot be opened.
    #[error("cannot open '{}' ({source}): name another file with -o", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The finished profile cannot be written.
    #[error("cannot write '{}' ({source}): this output is lost", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// Two outputs are one file.
    #[error("'{}' is named twice: name another file with -o", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
    },
    /// All default names exist.
    #[error("'{}' and all its numbered names exist: name a file with -o", path.display())]
    NoFreeName {
        /// The first of the names.
        path: PathBuf,
    },
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
            Kind::Replaced {
                temporary,
                folder,
                path,
            } => replace(temporary, &folder.entry(&path), bytes)
                .map_err(|source| OutputError::Write {
                    path: path.clone(),
                    source,
                })
                .map(|()| Some(path)),
            Kind::Numbered { temporary, name } => number(temporary, &name, bytes).map(Some),
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
        temporary: temporary(folder, folder)?,
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
        temporary: temporary(&descriptor(&folder.0), parent)?,
        folder,
        path,
    })
}

/// A folder that stays the same whatever becomes of its name.
#[derive(Debug)]
struct OpenFolder(File);

impl OpenFolder {
    fn open(path: &Path) -> Result<Self, OutputError> {
        let opened = open_path(or_current(path), OFlags::DIRECTORY);
        opened.map(Self).map_err(|error| folder_error(path, &error))
    }

    /// A path of the entry with the file name of `path`.
    fn entry(&self, path: &Path) -> PathBuf {
        descriptor(&self.0).join(path.file_name().unwrap_or_default())
    }
}

/// Opens a path without the right to read or write.
fn open_path(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// The folder of a path that has none.
fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
}

/// The path of an open file whatever becomes of its name.
fn descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn folder_error(folder: &Path, error: &io::Error) -> OutputError {
    let folder = or_current(folder);
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OutputError::NoFolder {
            folder: folder.into(),
        },
        // The error itself repeats the name of the file.
        kind => OutputError::Create {
            folder: folder.into(),
            source: kind.into(),
        },
    }
}

/// The user and the group that files are for.
fn owner() -> (u32, u32) {
    let id = |name| env::var(name).ok()?.parse::<u32>().ok();
    let caller = id("SUDO_UID").zip(id("SUDO_GID"));
    let own = (geteuid().as_raw(), getegid().as_raw());
    caller.filter(|_| geteuid().is_root()).unwrap_or(own)
}

/// A file that is gone when the agent ends before it is complete.
///
/// It is created in `folder`; `name` is that folder for people.
fn temporary(folder: &Path, name: &Path) -> Result<NamedTempFile, OutputError> {
    let created = tempfile::Builder::new()
        .prefix(".agent-")
        .suffix(".part")
        .tempfile_in(or_current(folder))
        .map_err(|error| folder_error(name, &error))?;
    give(created.as_file(), owner());
    Ok(created)
}

/// Gives a file to this user and group if it is not theirs: a service may not even ask for it.
fn give(file: &File, owner: (u32, u32)) {
    let present = file.metadata().map(|file| (file.uid(), file.gid()));
    if present.is_ok_and(|present| present != owner) {
        // Not possible on every file system; then it stays the agent's own.
        let _ = fchown(file, Some(owner.0), Some(owner.1));
    }
}

fn replace(mut temporary: NamedTempFile, path: &Path, bytes: &[u8]) -> io::Result<()> {
    temporary.write_all(bytes)?;
    // The mode that its owner has chosen; not that of a file which somebody else has put there.
    if let Ok(old) = fs::symlink_metadata(path)
        && old.is_file()
        && [owner().0, geteuid().as_raw()].contains(&old.uid())
    {
        give(temporary.as_file(), (old.uid(), old.gid()));
        let mode = Permissions::from_mode(old.permissions().mode() & 0o777);
        temporary.as_file().set_permissions(mode)?;
    }
    match temporary.persist(path) {
        Ok(_) => Ok(()),
        // A single file that is mounted into a container can be written, not replaced.
        Err(error) if error.error.kind() == io::ErrorKind::ResourceBusy => {
            let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
            let mut options = OpenOptions::new();
            let options = options.write(true).truncate(true).custom_flags(flags);
            options.open(path)?.write_all(bytes)
        }
        Err(error) => Err(error.error),
    }
}

fn number(
    mut temporary: NamedTempFile,
    name: &NumberedName,
    bytes: &[u8],
) -> Result<PathBuf, OutputError> {
    let failed = |path: PathBuf, source| OutputError::Write { path, source };
    if let Err(source) = temporary.write_all(bytes) {
        return Err(failed(name.path(1), source));
    }
    for number in 1..=MAX_UNNAMED {
        let path = name.path(number);
        temporary = match temporary.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => error.file,
            Err(error) => return Err(failed(path, error.error)),
        };
    }
    Err(OutputError::NoFreeName { path: name.path(1) })
}

/// `agent-42.pb.gz`, `agent-42-2.pb.gz`, `agent-42-3.pb.gz` …
#[derive(Debug)]
struct NumberedName {
    stem: PathBuf,
    ending: &'static str,
}

impl NumberedName {
    fn path(&self, number: u32) -> PathBuf {
        let mut path = self.stem.clone().into_os_string();
        if number > 1 {
            path.push(format!("-{number}"));
        }
        path.push(".");
        path.push(self.ending);
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        os::unix::fs::{chown, symlink},
        thread,
    };

    use super::*;

    fn prepare(path: &Path) -> Result<Output, OutputError> {
        Output::prepare(&Destination::from(path.to_owned()), Format::Pprof, 42, None)
    }

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pb.gz");
        let output = prepare(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(output.commit(b"new").unwrap(), Some(path.clone()));
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names_in(folder.path()), ["x.pb.gz"]);
    }

    #[test]
    fn an_older_file_stays_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pb.gz");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();

        drop(prepare(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names_in(folder.path()), ["x.pb.gz"]);

        prepare(&path).unwrap().commit(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn only_its_owner_reads_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pb.gz");
        prepare(&path).unwrap().commit(b"new").unwrap();
        let unnamed = prepare_numbered(folder.path(), Format::Pprof, "agent-42").unwrap();
        let unnamed = Output(unnamed).commit(b"new").unwrap().unwrap();
        for path in [path, unnamed] {
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600, "{path:?}");
        }
    }

    #[test]
    fn a_file_of_another_user_does_not_get_the_profile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pb.gz");
        fs::write(&path, "theirs").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        chown(&path, Some(65_534), Some(65_534)).unwrap();
        let theirs = File::open(&path).unwrap();
        prepare(&path).unwrap().commit(b"new").unwrap();
        let ours = path.metadata().unwrap();
        assert_eq!((ours.uid(), ours.mode() & 0o777), (owner().0, 0o600));
        assert_eq!(io::read_to_string(theirs).unwrap(), "theirs");
    }

    #[test]
    fn a_folder_that_is_exchanged_meanwhile_gets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (before, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir(&before).unwrap();
        fs::create_dir(&other).unwrap();
        let output = prepare(&before.join("x.pb.gz")).unwrap();
        let moved = folder.path().join("c");
        fs::rename(&before, &moved).unwrap();
        symlink(&other, &before).unwrap();
        output.commit(b"new").unwrap();
        assert!(names_in(&other).is_empty());
        assert_eq!(names_in(&moved), ["x.pb.gz"]);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file.pb"), folder.path().join("link.pb"));
        fs::write(&file, "old").unwrap();
        symlink("file.pb", &link).unwrap();
        prepare(&link).unwrap().commit(b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_file_without_a_chosen_name_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        for content in ["first", "second", "third"] {
            let kind = prepare_numbered(folder.path(), Format::Svg, "agent-42").unwrap();
            Output(kind).commit(content.as_bytes()).unwrap();
        }
        assert_eq!(
            names_in(folder.path()),
            ["agent-42-2.svg", "agent-42-3.svg", "agent-42.svg"]
        );
        let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("agent-42.svg"), "first");
        assert_eq!(read("agent-42-3.svg"), "third");
    }

    #[test]
    fn each_of_several_profiles_has_its_word_before_the_extension() {
        for (path, expected) in [
            ("a.b/c.pb.gz", "a.b/c.wall.pb.gz"),
            ("/tmp/x.svg", "/tmp/x.wall.svg"),
            ("x", "x.wall"),
            ("x.json", "x.json.wall"),
            (".svg", ".svg.wall"),
        ] {
            assert_eq!(with_word(Path::new(path), "wall"), Path::new(expected));
        }
        assert!(!Destination::from(PathBuf::from("/dev/null")).can_have_several_files());
    }

    #[test]
    fn a_folder_is_no_output() {
        let folder = tempfile::tempdir().unwrap();
        let error = prepare(folder.path()).unwrap_err();
        assert!(matches!(error, OutputError::IsFolder { .. }), "{error}");
        let error = prepare(&folder.path().join("new/")).unwrap_err();
        assert!(matches!(error, OutputError::IsFolder { .. }), "{error}");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = prepare(&missing.join("x.svg")).unwrap_err();
        assert!(
            matches!(&error, OutputError::NoFolder { folder } if *folder == missing),
            "{error}"
        );
    }

    #[test]
    fn a_folder_that_takes_no_files_is_named() {
        // Not even root may create files there.
        let error = prepare(Path::new("/sys/kernel/x.svg")).unwrap_err();
        assert!(
            matches!(&error, OutputError::Create { folder, .. } if folder == Path::new("/sys/kernel")),
            "{error}"
        );
    }

    #[test]
    fn a_file_in_place_of_a_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = prepare(&file.join("x.svg")).unwrap_err();
        assert!(matches!(error, OutputError::Open { .. }), "{error}");
    }

    #[test]
    fn a_device_is_written_directly() {
        let output = prepare(Path::new("/dev/null")).unwrap();
        assert!(matches!(output.0, Kind::Direct { .. }));
        output.commit(b"bytes").unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());

        let output = prepare(Path::new("/dev/full")).unwrap();
        let error = output.commit(b"bytes").unwrap_err();
        assert!(matches!(error, OutputError::Write { .. }), "{error}");
    }

    #[test]
    fn a_pipe_is_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        let reader = thread::spawn({
            let path = path.clone();
            move || {
                let mut bytes = Vec::new();
                File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            }
        });
        prepare(&path).unwrap().commit(b"bytes").unwrap();
        assert_eq!(reader.join().unwrap(), b"bytes");
        assert_eq!(names_in(folder.path()), ["pipe"]);
    }

    #[test]
    fn a_descriptor_of_a_file_is_written_not_replaced() {
        use std::os::fd::AsRawFd as _;

        let file = tempfile::NamedTempFile::new().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        prepare(&path).unwrap().commit(b"bytes").unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"bytes");
    }
}
