use std::{fs, io, path::Path};

use super::{
    CoreDump,
    fixtures::{Range, core},
};
use crate::process::{OpenError, RegularFile, open_on_host};

/// Nothing is there.
fn nothing(path: &Path) -> Result<RegularFile, OpenError> {
    Err(OpenError::Open {
        path: path.to_owned(),
        source: io::ErrorKind::NotFound.into(),
    })
}

fn read(contents: Vec<u8>) -> CoreDump<Vec<u8>> {
    CoreDump::read(contents, Path::new("core"), nothing).unwrap()
}

fn example() -> Vec<u8> {
    let ranges = [
        // Deliberately not in order.
        Range {
            start: 0x7f00_0000_0000,
            bytes: 0x2000,
            flags: 6,
            dumped: &[7; 0x1000],
        },
        Range {
            start: 0x40_0000,
            bytes: 0x1000,
            flags: 4,
            dumped: &[1; 0x1000],
        },
        Range {
            start: 0x40_1000,
            bytes: 0x2000,
            flags: 5,
            dumped: &[],
        },
    ];
    let files = [
        (0x40_0000, 0x40_1000, 0, "/usr/bin/python3"),
        (0x40_1000, 0x40_3000, 1, "/usr/bin/python3"),
        // As of gdb, without a segment.
        (0x50_0000, 0x50_1000, 2, "/usr/lib/libz.so (deleted)"),
    ];
    core(&[7, 8], 11, &ranges, &files)
}

#[test]
fn threads_signal_and_process_are_those_of_the_notes() {
    let core = read(example());
    assert_eq!(
        (core.pid(), core.name(), &*core.command_line()),
        (7, "python3", "python3 app.py")
    );
    assert_eq!(core.executable(), Path::new("/usr/bin/python3"));
    let tids: Vec<_> = core.threads().iter().map(|thread| thread.tid).collect();
    assert_eq!(tids, [7, 8]);
    let signal = core.signal().unwrap();
    assert_eq!((signal.number, signal.address), (11, Some(0x18)));
    assert_eq!(core.truncation(), None);
    assert!(!core.has_lost_notes());
}

#[test]
fn memory_is_that_which_was_dumped() {
    let core = read(example());
    let mut bytes = [0; 8];
    core.read_memory(0x40_0ff8, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 8]);
    core.read_memory(0x7f00_0000_0ff8, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 8]);
    for address in [
        0,
        0x3f_fff8,
        // Into what the file of the mapping has, which is not there.
        0x40_0ffc,
        0x40_1000,
        // What could be written is not read of a file.
        0x7f00_0000_1000,
        0x7f00_0000_0ffc,
        0x50_0000,
        u64::MAX,
        u64::MAX - 7,
    ] {
        assert!(
            core.read_memory(address, &mut bytes).is_err(),
            "{address:#x}"
        );
    }
    let missing: Vec<_> = core.missing_files().collect();
    assert_eq!(
        missing,
        [Path::new("/usr/bin/python3"), Path::new("/usr/lib/libz.so")]
    );
}

#[test]
fn mappings_have_their_files_and_those_that_were_left_out_are_there() {
    let core = read(example());
    let mappings = core.mappings();
    let starts: Vec<_> = mappings.iter().map(|it| it.start).collect();
    assert_eq!(starts, [0x40_0000, 0x40_1000, 0x50_0000, 0x7f00_0000_0000]);
    assert_eq!(mappings[1].file_offset, 0x1000);
    assert!(mappings[1].permissions.execute && !mappings[0].permissions.execute);
    let file = |nth: usize| mappings[nth].file.as_ref();
    assert_eq!(file(0).unwrap().id, file(1).unwrap().id);
    assert!(file(2).unwrap().is_deleted && mappings[2].permissions.execute);
    assert_eq!(file(3), None);
}

/// What a dump lacks is read of the file with the same beginning, and of no other one.
#[test]
fn the_file_of_a_mapping_stands_for_what_was_not_dumped() {
    let own = std::env::current_exe().unwrap();
    let contents = fs::read(&own).unwrap();
    let path = own.to_str().unwrap();
    let mut other = contents[..0x1000].to_vec();
    for byte in &mut other[64..] {
        *byte ^= 1;
    }
    for (dumped, is_same) in [(&contents[..0x1000], true), (&other, false), (&[], true)] {
        let range = |start, flags, dumped| Range {
            start,
            bytes: 0x1000,
            flags,
            dumped,
        };
        let ranges = [range(0x40_0000, 4, dumped), range(0x40_1000, 5, &[])];
        let files = [(0x40_0000, 0x40_2000, 0, path)];
        let file = core(&[7], 0, &ranges, &files);
        let core = CoreDump::read(file, Path::new("core"), open_on_host).unwrap();
        let mut bytes = [0; 64];
        let found = core.read_memory(0x40_1040, &mut bytes);
        assert_eq!(found.is_ok(), is_same);
        if is_same {
            assert_eq!(bytes, contents[0x1040..0x1080]);
        }
        assert_eq!(core.changed_files().count(), usize::from(!is_same));
        assert_eq!(core.signal(), None);
    }
}

/// Whatever is asked for.
fn use_all(contents: Vec<u8>) {
    let Ok(core) = CoreDump::read(contents, Path::new("core"), nothing) else {
        return;
    };
    for mapping in core.mappings() {
        let mut bytes = [0; 24];
        for address in [mapping.start, mapping.end.wrapping_sub(12), mapping.end] {
            let _ = core.read_memory(address, &mut bytes);
        }
        assert!(core.open_mapped(&mapping).is_err());
    }
    for thread in core.threads() {
        let _ = core.at_rest(thread);
    }
    let _ = (
        core.truncation(),
        core.signal(),
        core.missing_files().count(),
    );
}

#[test]
fn a_truncated_core_dump_is_read_as_far_as_it_goes() {
    let whole = example();
    for bytes in 0..whole.len() {
        use_all(whole[..bytes].to_vec());
    }
    let core = read(whole[..whole.len() - 1].to_vec());
    let (there, all) = core.truncation().unwrap();
    assert_eq!(all - there, 1);
    let mut bytes = [0; 8];
    assert!(core.read_memory(0x40_0ff8, &mut bytes).is_err());
    core.read_memory(0x40_0ff0, &mut bytes).unwrap();
}

#[test]
fn damaged_core_dumps_are_read_to_an_end() {
    let whole = example();
    let mut random = fastrand::Rng::with_seed(3);
    let head = whole.len() - 0x2000;
    for _ in 0..20_000 {
        let mut damaged = whole.clone();
        for _ in 0..random.usize(1..24) {
            let at = random.usize(16..head);
            damaged[at] = random.u8(..);
        }
        use_all(damaged);
    }
}

#[test]
fn sizes_that_overflow_end_nothing() {
    let whole = example();
    // Each word of the headers and the notes.
    for at in (16..whole.len() - 0x2000 - 8).step_by(4) {
        for word in [u64::MAX, 1 << 63, u64::MAX - 0xfff, 0] {
            let mut damaged = whole.clone();
            damaged[at..at + 8].copy_from_slice(&word.to_le_bytes());
            use_all(damaged);
        }
    }
}
