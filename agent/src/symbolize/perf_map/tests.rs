//! Maps that are written, appended to, replaced and malformed.

use super::{PerfMap, PerfMapMiss, Span, without_overlaps};
use crate::process::Process;
use proptest::prelude::{any, prop, proptest};
use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    process::{Command, id},
    time::{Duration, SystemTime},
};

fn map_of(text: &[u8]) -> PerfMap {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text).unwrap();
    let mut map = PerfMap::default();
    assert!(map.update(&file.into()).unwrap());
    map
}

#[test]
fn lines_are_read_as_jits_write_them() {
    let map = map_of(
        b"7f0000001000 40 py::fibonacci:/app/a b.py\n\
          0x7f0000002000 0x10 JS:*run /srv/index.js:12:3\r\n\
          7f0000003000 20 \n\
          7f0000004000 zz broken\n\
          7f0000004000\n\
          ffffffffffffffff 20 over the end\n\
          7f0000005000 0 nothing\n\
          7f0000006000 8 a\x1bb\n\
          7f0000007000 8 not yet whole",
    );
    let known = |name: &str| Ok(name.to_owned());
    assert_eq!(map.find(0x7f00_0000_0fff), Err(PerfMapMiss::NotInMap));
    let python = known("py::fibonacci:/app/a b.py");
    assert_eq!(map.find(0x7f00_0000_1000), python);
    assert_eq!(map.find(0x7f00_0000_103f), python);
    assert_eq!(map.find(0x7f00_0000_1040), Err(PerfMapMiss::NotInMap));
    let script = known("JS:*run /srv/index.js:12:3");
    assert_eq!(map.find(0x7f00_0000_200f), script);
    for address in [
        0x7f00_0000_3000,
        0x7f00_0000_4000,
        u64::MAX,
        0x7f00_0000_5000,
    ] {
        assert_eq!(map.find(address), Err(PerfMapMiss::NotInMap));
    }
    assert_eq!(map.find(0x7f00_0000_6000), known(r"a\x1bb"));
    assert_eq!(map.find(0x7f00_0000_7000), Err(PerfMapMiss::NotInMap));
}

#[test]
fn later_lines_hold() {
    let map = map_of(b"1000 100 old\n1040 20 inner\n1050 100 newest\n0f00 100 before\n");
    let name = |address| map.find(address).unwrap();
    assert_eq!(name(0xfff), "before");
    assert_eq!(name(0x1000), "old");
    assert_eq!(name(0x1040), "inner");
    assert_eq!(name(0x1050), "newest");
    assert_eq!(name(0x114f), "newest");
    assert_eq!(map.functions.len(), 4);
}

#[test]
fn only_appended_lines_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let append = |text: &str| {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    append("1000 10 one\n2000 10 t");
    let mut map = PerfMap::default();
    assert!(map.update(&File::open(&path).unwrap().into()).unwrap());
    assert!(!map.update(&File::open(&path).unwrap().into()).unwrap());
    assert_eq!(map.find(0x2000), Err(PerfMapMiss::NotInMap));
    append("wo\n1008 10 three\n");
    assert!(map.update(&File::open(&path).unwrap().into()).unwrap());
    let names = [0x1000, 0x1008, 0x2000].map(|address| map.find(address).unwrap());
    assert_eq!(names, ["one", "three", "two"]);

    // A map that is written anew.
    fs::write(
        &path,
        "2000 10 another, with a longer name than all before\n",
    )
    .unwrap();
    assert!(map.update(&File::open(&path).unwrap().into()).unwrap());
    assert_eq!(map.find(0x1000), Err(PerfMapMiss::NotInMap));
    assert!(map.find(0x2000).unwrap().starts_with("another"));
}

#[test]
fn the_map_of_a_process_is_found() {
    let process = Process::open(id()).unwrap();
    let path = PerfMap::path(&process);
    assert_eq!(path.to_str().unwrap(), format!("/tmp/perf-{}.map", id()));
    let mut map = PerfMap::default();
    assert!(!map.refresh(&process));
    assert_eq!(map.find(0x1000), Err(PerfMapMiss::NoMap));
    fs::write(&path, "1000 10 one\n").unwrap();
    assert!(map.refresh(&process));
    assert_eq!(map.find(0x1000), Ok("one".to_owned()));
    assert_eq!(map.find(0x2000), Err(PerfMapMiss::NotInMap));

    // Nor is one that an earlier process with the same id has left behind.
    let file = File::options().write(true).open(&path).unwrap();
    let before = process.started().unwrap() - Duration::from_secs(10);
    file.set_modified(before).unwrap();
    let mut map = PerfMap::default();
    assert!(!map.refresh(&process));
    assert_eq!(map.find(0x1000), Err(PerfMapMiss::NoMap));
    file.set_modified(SystemTime::now()).unwrap();
    assert!(map.refresh(&process));

    // A map of another user is not read; only root can change the owner.
    if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
        let mut map = PerfMap::default();
        assert!(!map.refresh(&process));
        assert_eq!(map.find(0x1000), Err(PerfMapMiss::NoMap));
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn the_map_of_a_process_that_has_ended_is_read_to_its_end() {
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    let process = Process::open(child.id()).unwrap();
    let path = PerfMap::path(&process);
    fs::write(&path, "1000 10 one\n").unwrap();
    let mut map = PerfMap::default();
    assert!(!map.refresh_ended());
    assert!(map.refresh(&process));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"2000 10 two\n").unwrap();
    fs::remove_file(&path).unwrap();
    assert!(map.refresh_ended());
    assert_eq!(map.find(0x2000), Ok("two".to_owned()));
    assert!(!map.refresh_ended());
}

#[test]
fn a_line_without_an_end_takes_no_memory() {
    let mut text = vec![b'a'; 1 << 20];
    text.extend(b"\n1000 10 one\n");
    let map = map_of(&text);
    assert_eq!(map.find(0x1000).unwrap(), "one");
    assert!(map.names.capacity() < 4096);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<Vec<u8>>(), address in any::<u64>()) {
        let _ = map_of(&text).find(address);
    }

    #[test]
    fn no_line_makes_it_panic(
        text in "((0x)?[0-9a-f]{0,17} [0-9a-f]{0,17} ?.{0,9}\n){0,30}",
        address in any::<u64>(),
    ) {
        let _ = map_of(text.as_bytes()).find(address);
    }

    #[test]
    fn later_spans_overwrite_earlier_ones(
        spans in prop::collection::vec((0..60_u64, 1..20_u64), 0..40),
    ) {
        let mut painted = [None; 100];
        let mut ordered = Vec::new();
        for (order, (start, bytes)) in (0..).zip(spans) {
            let name = (order, 1);
            let end = start + bytes;
            for place in start..end {
                painted[usize::try_from(place).unwrap()] = Some(name);
            }
            ordered.push((Span { start, end, name }, order as usize));
        }
        ordered.sort_unstable_by_key(|(span, order)| (span.start, *order));
        let result = without_overlaps(&ordered);
        assert!(result.windows(2).all(|pair| pair[0].end <= pair[1].start));
        for (address, expected) in (0..).zip(painted) {
            let found = result.iter().find(|span| (span.start..span.end).contains(&address));
            assert_eq!(found.map(|span| span.name), expected);
        }
    }
}
