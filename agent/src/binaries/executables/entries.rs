//! Which executables there are, which processes map them, and which are forgotten.
//!
//! Invariants: a number is given once and never again; the index of a table is given again only after
//! its executable was forgotten; an executable that a process maps, or that anyone refers to, is
//! neither closed nor forgotten.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::limits::MAX_EXECUTABLES;

use super::{executable::Executable, mapped_program::Identity};

/// Executables beyond which those that were not mapped for the longest time are forgotten, and how many
/// are left then.
const MANY: usize = MAX_EXECUTABLES as usize / 4 * 3;
const MANY_LEFT: usize = MAX_EXECUTABLES as usize / 2;

/// Time for which every executable is kept after no process maps it: what the processors still do for
/// a process that has ended takes far less.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// How many executables there are, and what became of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutableCounts {
    /// Files that are open.
    pub open: usize,
    /// Executables whose file is not open.
    pub closed: usize,
    /// Executables that no process maps.
    pub unused: usize,
    /// Executables that were forgotten since the start.
    pub forgotten: u64,
    /// Files that were closed before their executable was forgotten, to open others.
    pub closed_early: u64,
    /// Files that were not opened because too many that processes map were open.
    pub not_opened: u64,
    /// Whether so many are unused that they are to be forgotten soon.
    pub are_many_unused: bool,
}

/// An executable that was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Its number.
    pub number: u32,
    /// The index of its table, which other executables may have from now on.
    pub table: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Entries {
    by_number: BTreeMap<u32, Entry>,
    numbers: HashMap<Identity, u32>,
    /// The numbers of the executables that each process maps.
    processes: HashMap<u32, Vec<u32>>,
    last_number: u32,
    last_table: u32,
    /// Indices of tables of executables that were forgotten, the first of them first.
    free_tables: VecDeque<u32>,
    /// Most open files.
    max_open: usize,
    open: usize,
    forgotten: u64,
    closed_early: u64,
    not_opened: u64,
}

#[derive(Debug)]
struct Entry {
    executable: Arc<Executable>,
    /// Processes that have it mapped.
    users: u32,
    /// Since when no process has it mapped, or when it was last found.
    unused_since: Instant,
    /// Whether its file is not open because too many others were.
    is_left_out: bool,
}

impl Entry {
    /// Whether neither a process maps it nor anyone refers to it.
    fn is_unused(&self) -> bool {
        self.users == 0 && Arc::strong_count(&self.executable) == 1
    }
}

impl Entries {
    /// None; at most `max_open` files are to be open.
    pub(super) fn new(max_open: usize) -> Self {
        Self {
            by_number: BTreeMap::new(),
            numbers: HashMap::new(),
            processes: HashMap::new(),
            last_number: 0,
            last_table: 0,
            free_tables: VecDeque::new(),
            max_open,
            open: 0,
            forgotten: 0,
            closed_early: 0,
            not_opened: 0,
        }
    }

    /// The executable with this number.
    pub(super) fn get(&self, number: u32) -> Option<&Arc<Executable>> {
        Some(&self.by_number.get(&number)?.executable)
    }

    /// The executable with this identity; [`None`] if its file was left out and can be opened now.
    pub(super) fn find(&mut self, identity: Identity, now: Instant) -> Option<Arc<Executable>> {
        let has_room = self.open < self.max_open;
        let entry = self.by_number.get_mut(self.numbers.get(&identity)?)?;
        if entry.is_left_out && has_room {
            return None;
        }
        entry.unused_since = now;
        Some(Arc::clone(&entry.executable))
    }

    /// Makes room for another open file: closes those that no process maps, the longest unused first.
    /// Returns what was closed, and whether there is room.
    pub(super) fn make_room(&mut self) -> (Vec<Arc<Executable>>, bool) {
        if self.open < self.max_open {
            return (Vec::new(), true);
        }
        let is_open = |entry: &Entry| entry.is_unused() && entry.executable.is_open();
        // Several at once, so that the oldest are not searched for each new one.
        let numbers = self.longest_unused(self.max_open / 8 + 1, is_open);
        let mut closed = Vec::new();
        for number in numbers {
            if let Some(entry) = self.by_number.get_mut(&number) {
                let without_bytes = Arc::new(entry.executable.without_bytes());
                closed.push(std::mem::replace(&mut entry.executable, without_bytes));
                entry.is_left_out = true;
                self.open -= 1;
                self.closed_early += 1;
            }
        }
        let has_room = !closed.is_empty();
        self.not_opened += u64::from(!has_room);
        (closed, has_room)
    }

    /// Adds an executable, unless another thread has meanwhile; [`None`] when no table is free. Its
    /// file may have been `left_out`.
    pub(super) fn insert(
        &mut self,
        executable: Executable,
        is_left_out: bool,
        now: Instant,
    ) -> Option<Arc<Executable>> {
        let identity = executable.identity();
        if let Some(known) = self.find(identity, now) {
            return Some(known);
        }
        let number = self.last_number.checked_add(1)?;
        let table = self.free_table()?;
        self.last_number = number;
        let executable = Arc::new(executable.with_number(number, table));
        self.open += usize::from(executable.is_open());
        let entry = Entry {
            executable: Arc::clone(&executable),
            users: 0,
            unused_since: now,
            is_left_out,
        };
        self.by_number.insert(number, entry);
        self.numbers.insert(identity, number);
        Some(executable)
    }

    /// The next executable gets this number.
    #[cfg(feature = "testing")]
    pub(super) fn set_next_number(&mut self, number: u32) {
        self.last_number = number - 1;
    }

    /// The numbers of the executables that a process maps.
    pub(super) fn of_process(&self, pid: u32) -> &[u32] {
        self.processes.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Sets the executables that a process maps.
    pub(super) fn set_users(&mut self, pid: u32, numbers: Vec<u32>, now: Instant) {
        for number in &numbers {
            if let Some(entry) = self.by_number.get_mut(number) {
                entry.users += 1;
            }
        }
        let before = if numbers.is_empty() {
            self.processes.remove(&pid)
        } else {
            self.processes.insert(pid, numbers)
        };
        for number in before.unwrap_or_default() {
            if let Some(entry) = self.by_number.get_mut(&number) {
                entry.users = entry.users.saturating_sub(1);
                entry.unused_since = now;
            }
        }
    }

    /// Since when no process has an executable mapped.
    pub(super) fn unused_since(&self, number: u32) -> Option<Instant> {
        let entry = self.by_number.get(&number)?;
        (entry.users == 0).then_some(entry.unused_since)
    }

    /// Forgets the executables that were not mapped since `before`, except those of which `is_busy`
    /// says that something is done for them.
    pub(super) fn forget(
        &mut self,
        before: Instant,
        is_busy: impl Fn(u32) -> bool,
    ) -> Vec<(Forgotten, Arc<Executable>)> {
        let unused = self.by_number.iter().filter(|(number, entry)| {
            entry.unused_since <= before && entry.is_unused() && !is_busy(**number)
        });
        let numbers: Vec<_> = unused.map(|(number, _)| *number).collect();
        self.remove(&numbers)
    }

    /// Where there are so many executables that tables for more may be missing soon, forgets those
    /// that were not mapped for the longest time.
    pub(super) fn forget_excess(
        &mut self,
        now: Instant,
        is_busy: impl Fn(u32) -> bool,
    ) -> Vec<(Forgotten, Arc<Executable>)> {
        if self.by_number.len() <= MANY {
            return Vec::new();
        }
        let is_old = |entry: &Entry| {
            let unused = now.saturating_duration_since(entry.unused_since);
            entry.is_unused() && unused >= LEAST_TIME && !is_busy(entry.executable.number())
        };
        let numbers = self.longest_unused(self.by_number.len() - MANY_LEFT, is_old);
        self.remove(&numbers)
    }

    /// How many there are.
    pub(super) fn counts(&self) -> ExecutableCounts {
        let unused = self.by_number.values().filter(|entry| entry.users == 0);
        let (mut unused_open, mut unused_closed) = (0, 0);
        for entry in unused {
            if entry.executable.is_open() {
                unused_open += 1;
            } else {
                unused_closed += 1;
            }
        }
        let unused = unused_open + unused_closed;
        ExecutableCounts {
            open: self.open,
            closed: self.by_number.len() - self.open,
            unused,
            forgotten: self.forgotten,
            closed_early: self.closed_early,
            not_opened: self.not_opened,
            are_many_unused: unused_open > self.max_open / 4
                || unused > MAX_EXECUTABLES as usize / 4,
        }
    }

    /// The numbers of at most `most` executables that were not mapped for the longest time.
    fn longest_unused(&self, most: usize, is_wanted: impl Fn(&Entry) -> bool) -> Vec<u32> {
        let wanted = self.by_number.iter().filter(|(_, entry)| is_wanted(entry));
        let mut unused: Vec<_> = wanted
            .map(|(number, entry)| (entry.unused_since, *number))
            .collect();
        unused.sort_unstable();
        unused.truncate(most);
        unused.into_iter().map(|(_, number)| number).collect()
    }

    fn remove(&mut self, numbers: &[u32]) -> Vec<(Forgotten, Arc<Executable>)> {
        let mut removed = Vec::new();
        for number in numbers {
            let Some(Entry { executable, .. }) = self.by_number.remove(number) else {
                continue;
            };
            // A file that was left out may have another number by now.
            let identity = executable.identity();
            if self.numbers.get(&identity) == Some(number) {
                self.numbers.remove(&identity);
            }
            self.open -= usize::from(executable.is_open());
            self.forgotten += 1;
            let table = executable.table();
            self.free_tables.push_back(table);
            let forgotten = Forgotten {
                number: *number,
                table,
            };
            removed.push((forgotten, executable));
        }
        removed
    }

    /// An unused index of a table.
    fn free_table(&mut self) -> Option<u32> {
        if self.last_table < MAX_EXECUTABLES - 1 {
            self.last_table += 1;
            return Some(self.last_table);
        }
        self.free_tables.pop_front()
    }
}

#[cfg(test)]
mod tests;
