//! Subjects whose jobs exceeded their budgets.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher as _},
    time::{Duration, Instant},
};

/// How long a subject stays: what was slow because of a busy host is tried again.
const STAY: Duration = Duration::from_secs(10 * 60);

/// Most subjects; the one that entered first makes room.
const MAX_SUBJECTS: usize = 4096;

/// What a job is about. Equal keys are one subject.
#[derive(Clone, Debug)]
pub struct Subject {
    /// How people are shown it.
    name: String,
    key: u64,
    /// Why it enters quarantine if it does.
    reason: &'static str,
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Subject {}

impl Subject {
    /// From a key that is unique among all subjects, and a name for people.
    pub fn new(key: impl Hash, name: impl Into<String>) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self {
            name: name.into(),
            key: hasher.finish(),
            reason: "it takes too long to read",
        }
    }

    /// Sets the reason for which it enters quarantine if it does.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    /// A process.
    #[must_use]
    pub fn process(pid: u32) -> Self {
        Self::new(("process", pid), format!("process {pid}"))
    }

    /// The stacks of a process's threads.
    #[must_use]
    pub fn stacks(pid: u32) -> Self {
        Self::new(("stacks", pid), format!("the stacks of process {pid}"))
    }

    /// The perf map of a process.
    #[must_use]
    pub fn perf_map(pid: u32) -> Self {
        Self::new(("perf map", pid), format!("the perf map of process {pid}"))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn reason(&self) -> &'static str {
        self.reason
    }
}

/// A subject in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: &'static str,
    /// Since when.
    pub since: Instant,
}

/// The subjects in quarantine.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    subjects: HashMap<u64, Quarantined>,
    /// How many have entered so far.
    entered: u64,
}

impl Quarantine {
    /// Adds a subject; returns whether it was not there already.
    pub(super) fn add(&mut self, subject: &Subject, now: Instant) -> bool {
        self.expire(now);
        if self.subjects.len() >= MAX_SUBJECTS {
            let oldest = self.subjects.iter().min_by_key(|(_, one)| one.since);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.subjects.remove(&oldest);
            }
        }
        let quarantined = Quarantined {
            name: subject.name.clone(),
            reason: subject.reason,
            since: now,
        };
        let is_new = self.subjects.insert(subject.key, quarantined).is_none();
        self.entered += u64::from(is_new);
        is_new
    }

    pub(super) fn contains(&mut self, subject: &Subject, now: Instant) -> bool {
        let since = self.subjects.get(&subject.key).map(|one| one.since);
        let is_in = since.is_some_and(|since| now.duration_since(since) < STAY);
        if !is_in {
            self.subjects.remove(&subject.key);
        }
        is_in
    }

    pub(super) fn remove(&mut self, subject: &Subject) {
        self.subjects.remove(&subject.key);
    }

    pub(super) fn list(&self) -> Vec<Quarantined> {
        self.subjects.values().cloned().collect()
    }

    pub(super) fn entered(&self) -> u64 {
        self.entered
    }

    fn expire(&mut self, now: Instant) {
        self.subjects
            .retain(|_, one| now.duration_since(one.since) < STAY);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SUBJECTS, Quarantine, STAY, Subject};
    use std::time::{Duration, Instant};

    #[test]
    fn a_subject_leaves_after_its_time_or_for_newer_ones() {
        let mut quarantine = Quarantine::default();
        let now = Instant::now();
        let file = |number: usize| Subject::new(("file", number), "a file");
        assert!(quarantine.add(&file(0), now));
        assert!(!quarantine.add(&file(0), now), "known already");
        assert!(quarantine.contains(&file(0), now + STAY / 2));
        assert!(!quarantine.contains(&file(0), now + STAY));

        for number in 0..2 * MAX_SUBJECTS {
            let later = now + Duration::from_micros(number as u64);
            quarantine.add(&file(number), later);
        }
        assert_eq!(quarantine.list().len(), MAX_SUBJECTS);
        assert!(quarantine.contains(&file(2 * MAX_SUBJECTS - 1), now));
        assert!(!quarantine.contains(&file(0), now));
    }
}
