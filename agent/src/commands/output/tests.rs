//! What becomes of files, folders, links, devices and pipes.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    thread,
};

use super::{
    Destination, Kind, Output, OutputError,
    part_file::{NumberedName, PartFile, number, owner, replace},
    prepare_numbered, with_word,
};
use crate::formats::Format;

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
fn an_agent_that_is_killed_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let named = prepare(&folder.path().join("x.pb.gz")).unwrap();
    let numbered = prepare_numbered(folder.path(), Format::Svg, "agent-42").unwrap();
    assert!(names_in(folder.path()).is_empty());
    // Nothing is there that would have to be removed.
    std::mem::forget((named, numbered));
    assert!(names_in(folder.path()).is_empty());
}

fn part_file(folder: &Path, unnamed: Option<File>) -> PartFile {
    PartFile {
        folder: folder.into(),
        unnamed,
    }
}

#[test]
fn files_that_always_have_a_name_are_made_when_they_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pb.gz");
    let part = part_file(folder.path(), None);
    replace(part, &path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(names_in(folder.path()), ["x.pb.gz"]);
}

#[test]
fn an_error_names_the_file_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let other = tempfile::NamedTempFile::new().unwrap();
    let read_only = File::open(other.path()).unwrap();
    for part in [part_file(&gone, None), part_file(&gone, Some(read_only))] {
        let name = NumberedName {
            stem: folder.path().join("agent-42"),
            ending: "svg",
        };
        let error = number(part, &name, b"new").unwrap_err().to_string();
        let expected = format!("cannot write '{}' (", name.path(1).display());
        assert!(error.starts_with(&expected), "{error}");
        assert!(!error.contains(".part"), "{error}");
    }
    assert!(names_in(folder.path()).is_empty());
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
