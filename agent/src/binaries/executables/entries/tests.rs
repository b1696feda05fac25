use std::{
    fs::File,
    io::Write as _,
    process::id,
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::limits::MAX_EXECUTABLES;
use rustix::fs::{MemfdFlags, memfd_create};

use super::{Entries, LEAST_TIME, MANY_LEFT};
use crate::{
    binaries::executables::{executable::Executable, mapped_program::Identity},
    process::{Process, RegularFile, maps::Mapping},
};

const MAX_OPEN: usize = 64;

const SECOND: Duration = Duration::from_secs(1);

/// Files that this process has mapped.
struct Files {
    process: Process,
    mapping: Mapping,
    /// Every change gives it another identity.
    changed: File,
}

impl Files {
    fn new() -> Self {
        let process = Process::open(id()).unwrap();
        let own = process.mappings().unwrap();
        let mapping = own
            .iter()
            .find(|mapping| mapping.permissions.execute && mapping.file.is_some());
        let mapping = mapping.unwrap().clone();
        let changed = memfd_create("file", MemfdFlags::CLOEXEC).unwrap().into();
        Self {
            process,
            mapping,
            changed,
        }
    }

    /// The identity of another file each time.
    fn next(&mut self) -> Identity {
        self.changed.write_all(b"more").unwrap();
        let file = RegularFile::from(self.changed.try_clone().unwrap());
        Identity::File(file.identity().unwrap())
    }

    /// Finds or opens the executable with an identity, as the registry does.
    fn number(&self, entries: &mut Entries, identity: Identity, now: Instant) -> Arc<Executable> {
        entries.find(identity, now).unwrap_or_else(|| {
            let (_, may_open) = entries.make_room();
            let executable = Executable::open(identity, &self.process, &self.mapping, may_open);
            entries.insert(executable, !may_open, now).unwrap()
        })
    }

    /// Has a process map another file for a moment; returns the number and the index of the table.
    fn run(&mut self, entries: &mut Entries, now: Instant) -> (u32, u32) {
        let identity = self.next();
        let executable = self.number(entries, identity, now);
        entries.set_users(7, vec![executable.number()], now);
        entries.set_users(7, Vec::new(), now);
        (executable.number(), executable.table())
    }
}

fn idle(_: u32) -> bool {
    false
}

#[test]
fn files_that_no_process_maps_are_closed_for_new_ones() {
    let mut files = Files::new();
    let mut entries = Entries::new(MAX_OPEN);
    let now = Instant::now();
    let kept = files.next();
    let kept = files.number(&mut entries, kept, now);
    entries.set_users(8, vec![kept.number()], now);
    for nth in 0..3_000 {
        let (number, _) = files.run(&mut entries, now + nth * SECOND / 1000);
        assert!(entries.get(number).unwrap().is_open(), "{nth}");
        assert!(entries.counts().open <= MAX_OPEN);
    }
    assert!(entries.get(kept.number()).unwrap().is_open());
    let counts = entries.counts();
    assert_eq!(counts.not_opened, 0);
    assert_eq!(counts.closed_early, counts.closed as u64);
    assert_eq!(counts.open + counts.closed, 3_001);
}

#[test]
fn a_file_that_is_in_use_or_referred_to_stays_open() {
    let mut files = Files::new();
    let mut entries = Entries::new(2);
    let now = Instant::now();
    let [mapped, examined, left_out] = [(); 3].map(|()| files.next());
    let mapped = files.number(&mut entries, mapped, now);
    entries.set_users(8, vec![mapped.number()], now);
    let examined = files.number(&mut entries, examined, now);
    let closed = files.number(&mut entries, left_out, now);
    assert!(!closed.is_open());
    assert_eq!(entries.counts().not_opened, 1);
    assert!(entries.get(mapped.number()).unwrap().is_open());
    assert!(entries.get(examined.number()).unwrap().is_open());
    assert!(entries.forget(now, idle).is_empty());

    // It is opened once there is room, and is another executable then.
    drop(examined);
    assert_eq!(entries.forget(now, idle).len(), 1);
    let opened = files.number(&mut entries, left_out, now);
    assert!(opened.is_open());
    assert_ne!(opened.number(), closed.number());
    drop((closed, opened));
    assert_eq!(entries.forget(now, idle).len(), 2);
    assert_eq!(entries.counts().open, 1);
}

#[test]
fn what_was_mapped_since_is_not_forgotten() {
    let mut files = Files::new();
    let mut entries = Entries::new(MAX_OPEN);
    let now = Instant::now();
    let again = files.next();
    drop(files.number(&mut entries, again, now));
    let (before, table) = files.run(&mut entries, now);
    let (later, _) = files.run(&mut entries, now + 2 * SECOND);
    // Found once more.
    drop(files.number(&mut entries, again, now + 3 * SECOND));
    assert!(entries.forget(now + SECOND, |_| true).is_empty());
    let forgotten: Vec<_> = entries.forget(now + SECOND, idle);
    let forgotten = forgotten.iter().map(|(it, _)| (it.number, it.table));
    assert_eq!(forgotten.collect::<Vec<_>>(), [(before, table)]);
    assert!(entries.get(before).is_none());
    assert!(entries.get(later).is_some());
    assert_eq!(entries.counts().forgotten, 1);
}

#[test]
fn tables_are_used_again_and_numbers_are_not() {
    let mut files = Files::new();
    let mut entries = Entries::new(MAX_OPEN);
    let mut now = Instant::now();
    let mut last = 0;
    for _ in 0..3 * MAX_EXECUTABLES {
        now += SECOND / 1000;
        let (number, table) = files.run(&mut entries, now);
        assert!(number > last && (1..MAX_EXECUTABLES).contains(&table));
        last = number;
        let forgotten = entries.forget_excess(now, idle);
        if !forgotten.is_empty() {
            assert_eq!(entries.by_number.len(), MANY_LEFT);
            assert!(forgotten.iter().all(|(it, _)| it.number < number));
        }
    }
    assert!(entries.counts().are_many_unused);

    // All at once, when none may be forgotten yet.
    let mut entries = Entries::new(MAX_OPEN);
    for _ in 1..MAX_EXECUTABLES {
        files.run(&mut entries, now);
    }
    assert!(entries.forget_excess(now + LEAST_TIME / 2, idle).is_empty());
    assert!(entries.free_table().is_none());
    assert!(!entries.forget_excess(now + LEAST_TIME, idle).is_empty());
    assert!(entries.free_table().is_some());
}
