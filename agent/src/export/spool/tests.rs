//! Spools on a real disk, and on one that is full.

use std::{env, fs, path::Path, process::Command};

use rustix::process::{Resource, getrlimit, setrlimit};

use super::*;

const FORMAT: PayloadFormat = *b"test";

fn payload(number: usize, bytes: usize) -> Payload {
    Payload {
        name: format!("payload {number}"),
        body: vec![u8::try_from(number % 256).unwrap(); bytes].into(),
    }
}

fn open(folder: &Path, max_bytes: u64) -> (Spool, u64) {
    let config = SpoolConfig {
        folder: folder.to_owned(),
        max_bytes,
    };
    Spool::open(&config, FORMAT).unwrap()
}

/// Removes all payloads and returns their names.
fn drain(spool: &mut Spool) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        match spool.hold_front() {
            Front::Payload(payload) => names.push(payload.name),
            Front::Torn => names.push("torn".to_owned()),
            Front::Unreadable => unreachable!(),
            Front::Empty => return names,
        }
        if spool.front_is_held {
            spool.remove_front();
        }
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some())
        .collect();
    paths.sort();
    paths
}

#[test]
fn what_comes_first_goes_first_even_after_a_restart() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(temporary.path(), 1 << 20);
    for number in 1..=20 {
        assert_eq!(spool.push_back(&payload(number, 100)).unwrap(), 0);
    }
    assert_eq!(spool.push_front(&payload(0, 100)).unwrap(), 0);
    assert_eq!(spool.bytes(), 21 * 4_096);
    // As by SIGKILL: nothing is written at the end.
    drop(spool);
    let (mut spool, dropped) = open(temporary.path(), 1 << 20);
    assert_eq!((spool.len(), dropped, spool.bytes()), (21, 0, 21 * 4_096));
    spool.push_back(&payload(21, 100)).unwrap();
    let expected: Vec<_> = (0..=21).map(|number| format!("payload {number}")).collect();
    assert_eq!(drain(&mut spool), expected);
    assert_eq!((spool.len(), spool.bytes()), (0, 0));
    assert!(files(temporary.path()).is_empty());
}

#[test]
fn the_oldest_go_for_the_limit() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(temporary.path(), 5 * 4_096 + 4_095);
    let dropped: u64 = (0..8)
        .map(|number| spool.push_back(&payload(number, 4_000)).unwrap())
        .sum();
    assert_eq!((dropped, spool.len()), (3, 5));
    // It would be dropped for itself.
    assert_eq!(spool.push_front(&payload(2, 100)).unwrap(), 1);
    assert!(spool.push_back(&payload(9, 30_000)).is_err());
    drop(spool);

    let (mut spool, dropped) = open(temporary.path(), 3 * 4_096);
    assert_eq!((dropped, files(temporary.path()).len()), (2, 3));
    assert_eq!(drain(&mut spool), ["payload 5", "payload 6", "payload 7"]);
}

#[test]
fn what_is_being_delivered_stays() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(temporary.path(), 3 * 4_096);
    for number in 0..3 {
        spool.push_back(&payload(number, 100)).unwrap();
    }
    assert_eq!(spool.hold_front(), Front::Payload(payload(0, 100)));
    assert_eq!(spool.push_back(&payload(3, 100)).unwrap(), 1);
    spool.release_front();
    assert_eq!(drain(&mut spool), ["payload 0", "payload 2", "payload 3"]);
}

#[test]
fn a_torn_file_is_skipped() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(temporary.path(), 1 << 20);
    for number in 0..4 {
        spool.push_back(&payload(number, 5_000)).unwrap();
    }
    drop(spool);
    let files = files(temporary.path());
    let file = fs::OpenOptions::new().write(true).open(&files[3]).unwrap();
    file.set_len(4_096).unwrap();
    let mut bytes = fs::read(&files[1]).unwrap();
    bytes[2_000] ^= 1;
    fs::write(&files[1], bytes).unwrap();

    let (mut spool, _) = open(temporary.path(), 1 << 20);
    assert_eq!(
        drain(&mut spool),
        ["payload 0", "torn", "payload 2", "torn"]
    );
    assert!(self::files(temporary.path()).is_empty());
}

/// Variable of the process that uses up its file descriptors.
const WASTEFUL: &str = "AGENT_TEST_SPOOL_WASTEFUL";

#[test]
fn what_cannot_be_read_for_now_is_kept() {
    if env::var_os(WASTEFUL).is_none() {
        // The limit is one of the process.
        let name = "export::spool::tests::what_cannot_be_read_for_now_is_kept";
        let mut wasteful = Command::new(env::current_exe().unwrap());
        wasteful.args([name, "--exact"]).env(WASTEFUL, "1");
        let output = wasteful.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(temporary.path(), 1 << 20);
    for number in 0..3 {
        spool.push_back(&payload(number, 100)).unwrap();
    }
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let wasted: Vec<_> = std::iter::repeat_with(|| fs::File::open("/dev/null"))
        .map_while(Result::ok)
        .collect();
    assert_eq!(spool.hold_front(), Front::Unreadable);
    drop(wasted);
    assert_eq!(drain(&mut spool), ["payload 0", "payload 1", "payload 2"]);
}

#[test]
fn other_files_are_left_alone() {
    let temporary = tempfile::tempdir().unwrap();
    for name in [
        "ffffffffffffffff.parcel",
        "0000000000000000.parcel",
        "5.parcel",
        "notes.txt",
        "+000000000000001.parcel",
    ] {
        fs::write(temporary.path().join(name), [0; 9_000]).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", temporary.path().join(name_of(7))).unwrap();
    let (mut spool, dropped) = open(temporary.path(), 4_096);
    assert_eq!((dropped, spool.bytes()), (0, 0));
    spool.push_back(&payload(0, 10)).unwrap();
    assert_eq!(drain(&mut spool), ["payload 0"]);
    assert_eq!(files(temporary.path()).len(), 6);
}

#[test]
fn a_spool_is_used_by_one() {
    let temporary = tempfile::tempdir().unwrap();
    let (_spool, _) = open(temporary.path(), 4_096);
    let config = SpoolConfig {
        folder: temporary.path().to_owned(),
        max_bytes: 4_096,
    };
    let error = Spool::open(&config, FORMAT).unwrap_err();
    assert!(matches!(error, SpoolError::Locked { .. }), "{error}");
}

#[test]
fn a_full_disk_costs_the_oldest_and_no_more_than_is_needed() {
    let disk = crate::export::support::SmallDisk::mount(64 << 10);
    let (mut spool, _) = open(disk.path(), 1 << 30);
    for number in 0..6 {
        spool.push_back(&payload(number, 4_000)).unwrap();
    }
    disk.fill();
    // As large as two of the old ones.
    let dropped = spool.push_back(&payload(6, 8_000)).unwrap();
    assert_eq!(dropped, 2);
    assert_eq!(spool.len(), 5);

    // All that could be freed for it would not do, and half a file is worse than none.
    disk.fill();
    let (dropped, error) = spool.push_back(&payload(7, 40_000)).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert_eq!((dropped, files(disk.path()).len()), (0, 5));
    let expected: Vec<_> = (2..=6).map(|number| format!("payload {number}")).collect();
    assert_eq!(drain(&mut spool), expected);
}
