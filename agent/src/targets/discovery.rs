//! Which processes to examine, and when.
//!
//! Process events come in, examinations to make come out. A process is examined when it is new, after
//! exec, and when its executable mappings change. The last may happen often (JITs map code all the
//! time), so the pauses between examinations of one process double until it was quiet for a while, once they have taken
//! the time that a program gets which loads its libraries ([`pace`]).
//! Changes are noticed when a process is sampled. One that is not yet, because probes come with its
//! interpreter, is examined again for a minute after exec: reading its libraries from a disk takes a
//! while. On a host most programs exit within milliseconds: there a program is examined when it is
//! sampled, or some time after exec.
//!
//! Invariants: nothing is read here; a process has at most one examination at a time.

mod pace;

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    time::{Duration, Instant},
};

use agent_common::record::{ProcessEvent, ProcessEventKind};

use self::pace::{FIRST_PAUSE, LONGEST_PAUSE, Pace, pause_after};
use super::examiner::Finding;
use crate::{process, profile, targets::MAX_PROCESSES};

/// Most examinations of a program because it is still being started: four seconds, with these pauses.
const MAX_EARLY: u32 = 20;

/// Pause between more of them.
const LATE_PAUSE: Duration = Duration::from_secs(1);

/// Most of those: programs start slowly from a disk that is busy, or from a network.
const MAX_LATE: u32 = 60;

/// Most forked processes that wait for the examination of another one; more are examined themselves.
const MAX_HEIRS: usize = 4096;

/// What an event leads to.
#[derive(Debug)]
pub enum Step {
    /// A process must be examined.
    Examine(Examination),
    /// A forked process is a copy of its parent.
    Copy(profile::Process),
}

/// An examination to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Examination {
    /// The process.
    pub pid: u32,
    /// Its parent, where that is a target.
    pub parent: Option<u32>,
    number: u64,
}

/// What the result of an examination is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// It holds.
    Present,
    /// The process has exited since: it holds for what was sampled.
    Past,
    /// The process id stands for another process now.
    Void,
}

/// The known processes.
#[derive(Debug, Default)]
pub struct Discovery {
    known: HashMap<u32, Known>,
    /// Processes to examine without another event, by time; see [`Known::due`].
    due: BTreeSet<(Instant, u32)>,
    /// Time after exec until a program is examined if it is not sampled before.
    delay: Duration,
    /// How many examinations have been begun.
    begun: u64,
}

/// Examinations of a process because its program is being started.
#[derive(Debug, Default)]
struct Early {
    /// Whether it has executed one since it is known.
    has_executed: bool,
    /// How many were scheduled since.
    count: u32,
    /// Whether the next one is only for that.
    is_next: bool,
}

impl Early {
    /// The pause before the next one.
    fn pause(&self) -> Duration {
        if self.count < MAX_EARLY {
            pause_after(self.count)
        } else {
            LATE_PAUSE
        }
    }
}

/// A known process.
#[derive(Debug)]
struct Known {
    process: profile::Process,
    early: Early,
    /// The pauses between examinations.
    pace: Pace,
    /// Time of the next one, if one is scheduled.
    due: Option<Instant>,
    /// Whether its program was not examined yet.
    is_new: bool,
    /// The examination that is being made.
    present: Option<u64>,
    /// Whether another is due after that.
    is_outdated: bool,
    /// What was forked while it is being made.
    heirs: Vec<u32>,
    /// The process and the number of the examination that holds for this one too: it was forked from
    /// that process meanwhile.
    awaits: Option<(u32, u64)>,
}

impl Known {
    fn new(process: profile::Process) -> Self {
        Self {
            process,
            early: Early::default(),
            pace: Pace::new(Instant::now()),
            due: None,
            is_new: false,
            present: None,
            is_outdated: false,
            heirs: Vec::new(),
            awaits: None,
        }
    }
}

impl Discovery {
    /// For a host: a program is examined when it is sampled, or `delay` after exec.
    #[must_use]
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// Adds a process that has not executed its program yet.
    pub fn add_unstarted(&mut self, pid: u32) {
        self.insert(profile::Process {
            pid,
            ..profile::Process::default()
        });
    }

    /// Begins to examine a process; [`None`] if it is being examined: then it is once more.
    pub fn begin(&mut self, pid: u32, parent: Option<u32>) -> Option<Examination> {
        self.set_due(pid, None);
        if !self.known.contains_key(&pid) {
            self.insert(profile::Process {
                pid,
                parent,
                ..profile::Process::default()
            });
        }
        self.begun += 1;
        if let Some(known) = self.known.get_mut(&pid) {
            if known.present.is_some() {
                known.is_outdated = true;
                return None;
            }
            known.present = Some(self.begun);
            known.pace.begin(Instant::now());
            known.is_new = false;
            known.awaits = None;
        }
        Some(Examination {
            pid,
            parent,
            number: self.begun,
        })
    }

    /// Ends an examination.
    pub fn end(
        &mut self,
        examination: &Examination,
        result: &Result<Finding, process::Error>,
    ) -> Validity {
        let pid = examination.pid;
        let is_tracked = self.known.len() < MAX_PROCESSES;
        let Some(known) = self.known.get_mut(&pid) else {
            // Without room for another process it is not known whether it has exited.
            return if is_tracked {
                Validity::Past
            } else {
                Validity::Present
            };
        };
        if known.present != Some(examination.number) {
            return Validity::Void;
        }
        known.present = None;
        let now = Instant::now();
        let was_early = mem::take(&mut known.early.is_next);
        let mapped = result
            .as_ref()
            .ok()
            .and_then(|finding| finding.mapped.as_ref());
        let mappings = mapped.map_or(0, |mapped| mapped.mappings.len());
        known.pace.end(now, mappings, !was_early);
        let mut due = mem::take(&mut known.is_outdated).then(|| known.pace.due());
        match result {
            Ok(finding) => {
                known.process = finding.process.clone();
                // On a host programs are examined later, and most of them are never Python.
                let may_map_python = known.early.has_executed && self.delay.is_zero();
                let is_early = finding.is_early() || may_map_python && finding.is_not_python();
                if due.is_none() && is_early && known.early.count < MAX_EARLY + MAX_LATE {
                    due = Some(now + known.early.pause());
                    known.early.count += 1;
                    known.early.is_next = true;
                }
            }
            // A sample while it ended may have come after the event of its end, and nothing more comes.
            Err(process::Error::NoSuchProcess { .. } | process::Error::Ended { .. }) => {
                self.remove(pid);
                return Validity::Present;
            }
            Err(_) => known.heirs.clear(),
        }
        if due.is_some() {
            self.set_due(pid, due);
        }
        Validity::Present
    }

    /// After a successful examination: the processes that were forked while it was made, for which it
    /// holds as well.
    pub fn inherit(&mut self, examination: &Examination) -> Vec<profile::Process> {
        let Some(parent) = self.known.get_mut(&examination.pid) else {
            return Vec::new();
        };
        let heirs = mem::take(&mut parent.heirs);
        let original = parent.process.clone();
        let inherit = |pid| {
            let heir = self.known.get_mut(&pid)?;
            let awaits = heir.awaits.take()?;
            if awaits != (examination.pid, examination.number) {
                heir.awaits = Some(awaits);
                return None;
            }
            heir.process = profile::Process {
                pid,
                parent: heir.process.parent,
                ..original.clone()
            };
            Some(heir.process.clone())
        };
        heirs.into_iter().filter_map(inherit).collect()
    }

    /// Adds a process that was examined.
    pub fn add(&mut self, finding: &Finding) {
        self.insert(finding.process.clone());
        if finding.is_early() {
            let due = Instant::now() + FIRST_PAUSE;
            self.set_due(finding.process.pid, Some(due));
        }
    }

    /// Ends an examination without a result.
    pub fn forget(&mut self, examination: &Examination) {
        let known = self.known.get_mut(&examination.pid);
        if let Some(known) = known.filter(|known| known.present == Some(examination.number)) {
            known.present = None;
            known.is_outdated = false;
            known.heirs.clear();
        }
    }

    /// Acts on a process event.
    pub fn on_event(&mut self, event: &ProcessEvent) -> Option<Step> {
        match event.kind {
            ProcessEventKind::FORKED => self.on_fork(event.tgid, event.parent),
            ProcessEventKind::EXECUTED => self.on_execution(event.tgid),
            ProcessEventKind::MAPPED => self.on_mapping(event.tgid),
            ProcessEventKind::EXITED => {
                self.remove(event.tgid);
                None
            }
            _ => None,
        }
    }

    /// The known processes.
    pub fn known(&self) -> impl Iterator<Item = u32> {
        self.known.keys().copied()
    }

    /// Whether a process is known.
    #[must_use]
    pub fn is_known(&self, pid: u32) -> bool {
        self.known.contains_key(&pid)
    }

    /// Whether a process is being examined, or will be.
    #[must_use]
    pub fn is_awaited(&self, pid: u32) -> bool {
        let known = self.known.get(&pid);
        known.is_some_and(|known| known.present.is_some() || known.due.is_some())
    }

    /// Time of the next scheduled examination.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Begins an examination whose time has come, if there is one.
    pub fn begin_due(&mut self, now: Instant) -> Option<Examination> {
        loop {
            let (_, pid) = *self.due.first().filter(|(due, _)| *due <= now)?;
            let begun = self.begin_again(pid);
            if begun.is_some() {
                return begun;
            }
        }
    }

    /// Forgets a process that has ended.
    fn remove(&mut self, pid: u32) {
        self.set_due(pid, None);
        self.known.remove(&pid);
    }

    /// A forked process is a copy of its parent, in the BPF maps too.
    fn on_fork(&mut self, pid: u32, parent: u32) -> Option<Step> {
        let Some(original) = self.known.get(&parent) else {
            return self.begin_again(pid).map(Step::Examine);
        };
        let process = profile::Process {
            pid,
            parent: Some(parent),
            ..original.process.clone()
        };
        // Once what is being found out about its parent was put to use, whether it holds is examined.
        let due = match original.present {
            Some(_) => Some(Instant::now() + LONGEST_PAUSE),
            None => original.due,
        };
        let is_new = original.is_new;
        let awaits = match original.present {
            Some(number) => Some((parent, number)),
            None => original.awaits,
        };
        self.insert(process.clone());
        if let Some(known) = self.known.get_mut(&pid) {
            known.is_new = is_new;
            known.awaits = awaits;
        }
        self.add_heir(pid, awaits);
        self.set_due(pid, due);
        Some(Step::Copy(process))
    }

    /// Remembers that the examination of another process holds for this one too.
    fn add_heir(&mut self, pid: u32, awaits: Option<(u32, u64)>) {
        let Some((examined, number)) = awaits else {
            return;
        };
        let examined = self.known.get_mut(&examined);
        let examined = examined.filter(|examined| examined.present == Some(number));
        if let Some(examined) = examined.filter(|examined| examined.heirs.len() < MAX_HEIRS) {
            examined.heirs.push(pid);
        }
    }

    /// After exec.
    fn on_execution(&mut self, pid: u32) -> Option<Step> {
        if let Some(known) = self.known.get_mut(&pid) {
            known.pace.reset();
            known.early = Early {
                has_executed: true,
                ..Early::default()
            };
            // What is being found out is about the program before.
            known.present = None;
            known.is_outdated = false;
            known.heirs.clear();
            known.awaits = None;
        }
        if self.delay.is_zero() {
            return self.begin_again(pid).map(Step::Examine);
        }
        if !self.known.contains_key(&pid) {
            self.add_unstarted(pid);
        }
        if let Some(known) = self.known.get_mut(&pid) {
            known.is_new = true;
            self.set_due(pid, Some(Instant::now() + self.delay));
        }
        None
    }

    /// After a change of its executable mappings.
    fn on_mapping(&mut self, pid: u32) -> Option<Step> {
        if let Some(known) = self.known.get_mut(&pid) {
            known.early.is_next = false;
            let due = known.pace.due();
            if due > Instant::now() && !known.is_new {
                self.set_due(pid, Some(due));
                return None;
            }
        }
        self.begin_again(pid).map(Step::Examine)
    }

    /// Schedules the next examination of a process, or none.
    fn set_due(&mut self, pid: u32, due: Option<Instant>) {
        if let Some(known) = self.known.get_mut(&pid) {
            if let Some(before) = known.due.take() {
                self.due.remove(&(before, pid));
            }
            known.due = due;
            self.due.extend(due.map(|due| (due, pid)));
        }
    }

    fn begin_again(&mut self, pid: u32) -> Option<Examination> {
        let parent = self.known.get(&pid).and_then(|known| known.process.parent);
        self.begin(pid, parent)
    }

    fn insert(&mut self, process: profile::Process) {
        let pid = process.pid;
        // Processes beyond are sampled without a name.
        if self.known.len() >= MAX_PROCESSES && !self.known.contains_key(&pid) {
            return;
        }
        self.set_due(pid, None);
        self.known.insert(pid, Known::new(process));
    }
}

#[cfg(test)]
mod tests;
