//! The locks for which threads wait, by name.
//!
//! A stack is proved after it was read, and so is that a lock has no name that could be found: the functions that
//! refer to it may have been gone by then. That it has one needs no proof, since the variable was read with it.
//!
//! Invariants: what is kept of a process is bounded, and so is what is read of it in a second; a name is looked up
//! again after a while: a lock that is gone leaves its address to others. A program that makes a lock for each
//! request does not make a name for each: of many locks with the same name the first ones have their addresses. In the
//! same way, threads for whose end others wait have their names: of many that have come and gone the first ones, so that
//! there is room and time for the names of all other locks. All words on stacks are one lock.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use agent_common::{
    hash::Hash,
    record::{Header, LockName, RecordKind, Text},
};
use zerocopy::IntoBytes as _;

use super::page_cache::PageCache;
use crate::{
    python::remote::{Lock, LockReader},
    text::shortened,
};

/// Most locks of a process that are remembered.
const MAX_KNOWN: usize = 4096;

/// Most names of a process, without addresses; what has another one has none.
const MAX_NAMES: usize = 1024;

/// Most locks with the same name whose names have their identities.
const MAX_IDENTITIES: usize = 64;

/// Most that is looked at of a process in a second, as [`LockReader::MAX_ENTRIES`] counts it.
const MAX_ENTRIES: u32 = 16_384;

/// Entries that a look-up counts as besides, for what it reads in any case.
const LOOK_UP: u32 = 32;

/// Time after which a name is looked up again.
const AGAIN: Duration = Duration::from_secs(30);

/// Times that a name is looked for in vain, while the stack is not proved, until there is none.
const ATTEMPTS: u32 = 3;

/// Most columns of the name of a variable with its class, of that of the lock's class, and of that of a thread.
const VARIABLE_WIDTH: usize = 80;
const CLASS_WIDTH: usize = 40;
const THREAD_WIDTH: usize = 40;

/// What a lock is that is no object of Python's.
const UNKNOWN_CLASS: &str = "lock";

/// What one is of which only a word on the stack of the thread that waits is known.
const ON_OWN_STACK: &str = "lock on its own stack";

/// Time in which so many entries may be looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// What names of locks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockNaming {
    /// The class, and the variable that refers to the lock.
    WithoutIdentities,
    /// The address besides, or the name of the thread for whose end others wait, while few locks have the same name.
    WithIdentities,
}

/// The names of the locks of a process.
#[derive(Debug)]
pub(super) struct KnownLocks {
    /// By the address by which they are found.
    known: HashMap<u64, KnownLock>,
    /// Identities of the locks whose names have them, by name without one.
    names: HashMap<String, HashSet<Identity>>,
    /// Most of them of a name.
    max_identities: usize,
    /// Times that a variable was looked for that refers to a thread for whose end others wait.
    threads_searched: usize,
    budget: Budget,
}

/// What tells locks with the same name apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Address(u64),
    /// The name of the thread for whose end others wait.
    Thread(String),
}

impl Identity {
    /// That of a lock; [`None`] of what cannot be told apart.
    fn of(lock: &Lock) -> Option<Self> {
        if lock.is_on_own_stack {
            return None;
        }
        Some(match &lock.thread {
            Some(name) => Self::Thread(shortened(name, THREAD_WIDTH).into_owned()),
            None => Self::Address(lock.address),
        })
    }
}

/// Entries that may be looked at.
#[derive(Debug)]
struct Budget {
    since: Instant,
    left: u32,
}

#[derive(Debug)]
struct KnownLock {
    since: Instant,
    /// Its name; [`None`] where nothing is known but its address, which is not to be shown.
    name: Option<String>,
    /// What the name is without its identity.
    base: String,
    /// The lock, if it is an object.
    object: Option<Lock>,
    /// Times that no variable was found.
    failures: u32,
}

/// A lock for which a thread waits whose stack was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundLock {
    /// The address by which it was found.
    found_by: u64,
    /// Whether its name was looked for.
    is_searched: bool,
    /// Whether it is to be looked for later, since too much was read of the process.
    is_deferred: bool,
}

impl FoundLock {
    /// The address of the lock, or of its word; 0 where it has none of its own.
    pub(super) fn address(self) -> u64 {
        self.found_by
    }

    /// Whether its name is to be looked for later.
    pub(super) fn is_deferred(self) -> bool {
        self.is_deferred
    }
}

/// A lock for which a thread waits.
#[derive(Debug)]
pub(super) struct NamedLock {
    /// The hash of its name.
    pub(super) hash: u64,
    /// The record of its name.
    pub(super) record: Vec<u8>,
}

impl KnownLock {
    fn is_due(&self) -> bool {
        self.since.elapsed() >= AGAIN || (1..ATTEMPTS).contains(&self.failures)
    }

    /// Whether it is another one than a lock that was found by its address: the end of another thread.
    fn is_other(&self, found: &Lock) -> bool {
        let thread = self.object.as_ref().and_then(|it| it.thread.as_ref());
        found.thread.is_some() && found.thread.as_ref() != thread
    }
}

impl Budget {
    const FULL: u32 = MAX_ENTRIES;

    fn new() -> Self {
        Self {
            since: Instant::now(),
            left: Self::FULL,
        }
    }

    /// Whether there is enough for the largest look-up.
    fn has_some(&mut self) -> bool {
        if self.since.elapsed() >= PERIOD {
            *self = Self::new();
        }
        self.left >= LockReader::<PageCache>::MAX_ENTRIES + LOOK_UP
    }

    fn spend(&mut self, entries: u32) {
        self.left = self.left.saturating_sub(entries.saturating_add(LOOK_UP));
    }
}

impl KnownLocks {
    /// Those of a process.
    pub(super) fn new(naming: LockNaming) -> Self {
        Self {
            known: HashMap::new(),
            names: HashMap::new(),
            max_identities: match naming {
                LockNaming::WithoutIdentities => 0,
                LockNaming::WithIdentities => MAX_IDENTITIES,
            },
            threads_searched: 0,
            budget: Budget::new(),
        }
    }

    /// Looks up the name of a lock if that is due; without `reader` it is not, since a variable is looked for in
    /// much memory.
    pub(super) fn look_up(
        &mut self,
        mut lock: Lock,
        reader: Option<&mut LockReader<'_, PageCache>>,
    ) -> FoundLock {
        let found_by = lock.address;
        let before = self.known.get(&found_by);
        if before.is_some_and(|before| before.is_other(&lock)) {
            self.known.remove(&found_by);
        }
        let is_thread = lock.thread.is_some();
        if lock.is_on_own_stack || is_thread && self.threads_searched >= MAX_IDENTITIES {
            return self.look_up_unnamed(lock);
        }
        let known = self.known.get_mut(&found_by);
        let is_known = known.is_some();
        let is_due = known.as_ref().is_none_or(|known| known.is_due());
        let has_budget = self.budget.has_some();
        let is_wanted = reader.is_some() && is_due;
        let Some(reader) = reader.filter(|_| is_due && has_budget) else {
            return FoundLock {
                found_by,
                is_searched: false,
                is_deferred: is_wanted && !is_known,
            };
        };
        let (variable, entries) = reader.name(&mut lock);
        self.budget.spend(entries);
        self.threads_searched += usize::from(is_thread);
        let failures = known.as_ref().map_or(0, |known| known.failures);
        let failures = if variable.is_some() { 0 } else { failures + 1 };
        if variable.is_none()
            && let Some(known) = known
            && let Some(object) = &known.object
            && reader.is_still(object, found_by)
        {
            // The variable, if there is one, is that of other functions.
            known.since = Instant::now();
            known.failures = if known.failures == 0 { 0 } else { failures };
        } else {
            self.remember(found_by, variable, lock, failures);
        }
        FoundLock {
            found_by,
            is_searched: true,
            is_deferred: false,
        }
    }

    /// A lock to which no variable refers, or none is looked for: of a process without Python, on a stack, or the end of one
    /// of many threads.
    pub(super) fn look_up_unnamed(&mut self, lock: Lock) -> FoundLock {
        let found_by = lock.address;
        if !self.known.contains_key(&found_by) {
            self.remember(found_by, None, lock, ATTEMPTS);
        }
        FoundLock {
            found_by,
            is_searched: true,
            is_deferred: false,
        }
    }

    /// The object that a lock is, if it is known.
    pub(super) fn object(&self, found: FoundLock) -> Option<&Lock> {
        self.known.get(&found.found_by)?.object.as_ref()
    }

    fn remember(&mut self, found_by: u64, variable: Option<String>, lock: Lock, failures: u32) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
            self.names.clear();
        }
        let base = base_name(variable, &lock);
        let before = self.known.get(&found_by);
        let name = match before.filter(|before| before.base == base) {
            Some(before) => before.name.clone(),
            None => self.new_name(&base, &lock),
        };
        let known = KnownLock {
            since: Instant::now(),
            name,
            base,
            object: lock.class.is_some().then_some(lock),
            failures,
        };
        self.known.insert(found_by, known);
    }

    /// The name of a lock, with its identity while few have the same.
    fn new_name(&mut self, base: &str, lock: &Lock) -> Option<String> {
        if !self.names.contains_key(base) && self.names.len() >= MAX_NAMES {
            return None;
        }
        let identities = self.names.entry(base.to_owned()).or_default();
        if let Some(identity) = Identity::of(lock) {
            if identities.len() < self.max_identities {
                identities.insert(identity.clone());
            }
            if identities.contains(&identity) {
                return Some(with_identity(base, &identity));
            }
        }
        let has_name = lock.class.is_some() || base != UNKNOWN_CLASS;
        has_name.then(|| base.to_owned())
    }

    /// The name of a lock for which a thread was proved to wait: `Pool.jobs (Queue at 0x7f…)`, or `Lock at 0x7f…`
    /// where it is known that no variable was found; [`None`] while that is not, and where there is no name.
    pub(super) fn name(&mut self, found: FoundLock) -> Option<&str> {
        let known = self.known.get_mut(&found.found_by)?;
        if known.failures > 0 && found.is_searched {
            known.failures = known.failures.max(ATTEMPTS);
        }
        let is_known = known.failures == 0 || known.failures >= ATTEMPTS;
        known.name.as_deref().filter(|_| is_known)
    }
}

/// The name of a lock with its identity, by that of the variable that refers to it.
pub(super) fn full_name(variable: Option<String>, lock: &Lock) -> String {
    let base = base_name(variable, lock);
    match Identity::of(lock) {
        Some(identity) => with_identity(&base, &identity),
        None => base,
    }
}

/// The name without the identity: `Pool.jobs (Queue)`, `Lock`, or `critical section of dict`.
fn base_name(variable: Option<String>, lock: &Lock) -> String {
    if lock.is_on_own_stack {
        return ON_OWN_STACK.to_owned();
    }
    let class = lock.class.as_deref().unwrap_or(UNKNOWN_CLASS);
    let mut class = shortened(class, CLASS_WIDTH);
    if lock.is_critical_section {
        class = format!("critical section of {class}").into();
    }
    match variable {
        Some(variable) => format!("{} ({class})", shortened(&variable, VARIABLE_WIDTH)),
        None => class.into_owned(),
    }
}

/// `Pool.jobs (Queue at 0x7f…)`, `Lock at 0x7f…` or `Thread "collector"`.
fn with_identity(base: &str, identity: &Identity) -> String {
    let inside = base.strip_suffix(')');
    let end = if inside.is_some() { ")" } else { "" };
    let base = inside.unwrap_or(base);
    match identity {
        Identity::Address(address) => format!("{base} at {address:#x}{end}"),
        Identity::Thread(name) => format!("{base} \"{name}\"{end}"),
    }
}

impl NamedLock {
    /// A lock with this name of a process.
    pub(super) fn new(seed: u64, tgid: u32, name: &str) -> Self {
        let mut padded = name.as_bytes().to_vec();
        padded.resize(name.len().next_multiple_of(size_of::<u64>()), 0);
        let (words, _) = padded.as_chunks::<8>();
        let hash = words
            .iter()
            .fold(Hash::new(seed).word(tgid.into()), |hash, word| {
                hash.word(u64::from_ne_bytes(*word))
            })
            .finish();
        let bytes = size_of::<LockName>() + padded.len();
        let head = LockName {
            header: Header {
                kind: RecordKind::LOCK_NAME,
                reserved: 0,
                bytes: u32::try_from(bytes).unwrap_or(0),
            },
            lock: hash,
            name: Text {
                kind: Text::BYTES,
                truncated: 0,
                bytes: u16::try_from(name.len()).unwrap_or(0),
            },
            reserved: 0,
        };
        let mut record = Vec::with_capacity(bytes);
        record.extend_from_slice(head.as_bytes());
        record.extend_from_slice(&padded);
        Self { hash, record }
    }
}

#[cfg(test)]
mod tests;
