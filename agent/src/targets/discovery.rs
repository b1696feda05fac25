//! Examines the targets: which program, which interpreter.
//!
//! Process events come in, findings go out. Nothing is polled: a process is examined when it is new,
//! after exec, and when its executable mappings change. The last may happen often (JITs map code all
//! the time), so the pauses between examinations of one process double until it was quiet for a
//! while. On a host most programs exit within milliseconds: there a program is examined when it is
//! sampled, or some time after exec.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::record::{ProcessEvent, ProcessEventKind};

use crate::{
    process::{self, Descendant, Process},
    profile,
    python::{self, Detector, Interpreter},
    targets::MAX_PROCESSES,
};

/// Pause after the first examination of a process.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Longest pause between two examinations.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Time without examinations after which the next pause is the first one again.
const QUIET: Duration = Duration::from_secs(1);

/// What was found out about a process.
#[derive(Debug)]
pub struct Finding {
    /// The process.
    pub process: profile::Process,
    /// Its interpreter, if it runs Python.
    pub interpreter: Option<Box<Interpreter>>,
    /// The examined process; [`None`] if it was just forked and is a copy of its parent.
    pub opened: Option<Process>,
}

/// The examined processes.
#[derive(Debug, Default)]
pub struct Discovery {
    known: HashMap<u32, Known>,
    /// Processes to examine without another event, by time; see [`Known::due`].
    due: BTreeSet<(Instant, u32)>,
    detector: Detector,
    /// Time after exec until a program is examined if it is not sampled before.
    delay: Duration,
}

/// An examined process.
#[derive(Debug)]
struct Known {
    process: profile::Process,
    /// Examinations in short succession.
    examinations: u32,
    /// Time of the last one.
    examined: Instant,
    /// Time of the next one, if one is scheduled.
    due: Option<Instant>,
    /// Whether its program was not examined yet.
    is_new: bool,
}

impl Known {
    /// The pause after the last examination.
    fn pause(&self) -> Duration {
        FIRST_PAUSE
            .saturating_mul(1 << self.examinations.min(16))
            .min(LONGEST_PAUSE)
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

    /// Adds a process; also returns why it has no Python frames, if it has none.
    ///
    /// # Errors
    ///
    /// When it has exited or cannot be opened.
    pub fn add(&mut self, pid: u32) -> Result<(Finding, Option<python::Error>), process::Error> {
        let process = Process::open(pid)?;
        Ok(self.examine(process, None))
    }

    /// Adds a process that has not executed its program yet.
    pub fn add_unstarted(&mut self, pid: u32) {
        let process = profile::Process {
            pid,
            ..profile::Process::default()
        };
        self.insert(&process);
    }

    /// Adds a process that was started by a target.
    pub fn add_descendant(&mut self, descendant: Descendant) -> Option<Finding> {
        self.open_and_examine(descendant.pid, Some(descendant.parent))
    }

    /// Acts on a process event.
    pub fn on_event(&mut self, event: &ProcessEvent) -> Option<Finding> {
        match event.kind {
            ProcessEventKind::FORKED => self.on_fork(event.tgid, event.parent),
            ProcessEventKind::EXECUTED => self.on_execution(event.tgid),
            ProcessEventKind::MAPPED => self.on_mapping(event.tgid),
            ProcessEventKind::EXITED => {
                self.set_due(event.tgid, None);
                self.known.remove(&event.tgid);
                None
            }
            _ => None,
        }
    }

    /// Time of the next scheduled examination.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Examines a process whose time has come, if there is one.
    pub fn examine_due(&mut self, now: Instant) -> Option<Finding> {
        loop {
            let (_, pid) = *self.due.first().filter(|(due, _)| *due <= now)?;
            self.set_due(pid, None);
            // One that has exited is skipped.
            if let Some(finding) = self.reexamine(pid) {
                return Some(finding);
            }
        }
    }

    /// A forked process is a copy of its parent, in the BPF maps too.
    fn on_fork(&mut self, pid: u32, parent: u32) -> Option<Finding> {
        let Some(original) = self.known.get(&parent) else {
            return self.reexamine(pid);
        };
        let finding = Finding {
            process: profile::Process {
                pid,
                parent: Some(parent),
                ..original.process.clone()
            },
            interpreter: None,
            opened: None,
        };
        let due = original.due;
        let is_new = original.is_new;
        self.insert(&finding.process);
        if let Some(known) = self.known.get_mut(&pid) {
            known.is_new = is_new;
        }
        self.set_due(pid, due);
        Some(finding)
    }

    /// After exec.
    fn on_execution(&mut self, pid: u32) -> Option<Finding> {
        if self.delay.is_zero() {
            if let Some(known) = self.known.get_mut(&pid) {
                known.examinations = 0;
            }
            return self.reexamine(pid);
        }
        if !self.known.contains_key(&pid) {
            self.add_unstarted(pid);
        }
        if let Some(known) = self.known.get_mut(&pid) {
            known.examinations = 0;
            known.is_new = true;
            self.set_due(pid, Some(Instant::now() + self.delay));
        }
        None
    }

    /// After a change of its executable mappings.
    fn on_mapping(&mut self, pid: u32) -> Option<Finding> {
        let Some(known) = self.known.get_mut(&pid) else {
            return self.reexamine(pid);
        };
        let due = known.examined + known.pause();
        if due > Instant::now() && !known.is_new {
            self.set_due(pid, Some(due));
            return None;
        }
        self.reexamine(pid)
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

    fn reexamine(&mut self, pid: u32) -> Option<Finding> {
        let parent = self.known.get(&pid).and_then(|known| known.process.parent);
        self.open_and_examine(pid, parent)
    }

    fn open_and_examine(&mut self, pid: u32, parent: Option<u32>) -> Option<Finding> {
        // A process that has exited keeps its name.
        let process = Process::open(pid).ok()?;
        Some(self.examine(process, parent).0)
    }

    /// Detects the interpreter of a process; also returns why there is none.
    fn examine(
        &mut self,
        opened: Process,
        parent: Option<u32>,
    ) -> (Finding, Option<python::Error>) {
        let mut process = profile::Process {
            pid: opened.pid(),
            parent,
            name: opened.comm().to_owned(),
            executable: opened.executable().to_owned(),
            ..profile::Process::default()
        };
        let (interpreter, obstacle) = match self.detector.detect(&opened) {
            Ok(interpreter) => {
                process.is_python = true;
                process.runtime = format!("CPython {}", interpreter.version);
                process.images = Arc::clone(&interpreter.images);
                (Some(Box::new(interpreter)), None)
            }
            Err(error) => (None, Some(error)),
        };
        self.insert(&process);
        if obstacle.as_ref().is_some_and(is_early)
            && let Some(known) = self.known.get(&process.pid)
        {
            let due = known.examined + known.pause();
            self.set_due(process.pid, Some(due));
        }
        let finding = Finding {
            process,
            interpreter,
            opened: Some(opened),
        };
        (finding, obstacle)
    }

    fn insert(&mut self, process: &profile::Process) {
        let pid = process.pid;
        let now = Instant::now();
        let examinations = match self.known.get(&pid) {
            Some(known) if now.duration_since(known.examined) < QUIET => known.examinations + 1,
            _ => 0,
        };
        // Processes beyond are sampled without a name.
        if self.known.len() >= MAX_PROCESSES && !self.known.contains_key(&pid) {
            return;
        }
        self.set_due(pid, None);
        let known = Known {
            process: process.clone(),
            examinations,
            examined: now,
            due: None,
            is_new: false,
        };
        self.known.insert(pid, known);
    }
}

/// Whether a process may be about to map its interpreter.
fn is_early(error: &python::Error) -> bool {
    matches!(
        error,
        python::Error::NotLoaded { .. } | python::Error::Unreadable { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::{Discovery, LONGEST_PAUSE};
    use crate::profile;
    use agent_common::record::{Header, ProcessEvent, ProcessEventKind, RecordKind};
    use std::{
        process::id,
        time::{Duration, Instant},
    };

    fn event(kind: ProcessEventKind, tgid: u32, parent: u32) -> ProcessEvent {
        ProcessEvent {
            header: Header {
                kind: RecordKind::PROCESS_EVENT,
                reserved: 0,
                bytes: 32,
            },
            time_ns: 0,
            tgid,
            parent,
            kind,
            reserved: 0,
        }
    }

    #[test]
    fn a_copy_is_what_its_parent_is() {
        let mut discovery = Discovery::default();
        let (_, obstacle) = discovery.add(id()).unwrap();
        assert!(obstacle.is_some(), "this is not Python");
        let forked = event(ProcessEventKind::FORKED, u32::MAX, id());
        let finding = discovery.on_event(&forked).unwrap();
        assert_eq!(finding.process.pid, u32::MAX);
        assert_eq!(finding.process.parent, Some(id()));
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(finding.process.name, name.trim_end());
    }

    #[test]
    fn what_maps_code_again_and_again_is_looked_at_ever_more_seldom() {
        let mut discovery = Discovery::default();
        discovery.add(id()).unwrap();
        let mapped = event(ProcessEventKind::MAPPED, id(), 0);
        for _ in 0..12 {
            if discovery.on_event(&mapped).is_none() {
                let due = discovery.next_due().unwrap();
                assert!(discovery.examine_due(due).is_some());
            }
        }
        assert!(discovery.on_event(&mapped).is_none());
        let due = discovery.next_due().unwrap();
        assert!(due > Instant::now() + LONGEST_PAUSE / 2);
    }

    #[test]
    fn a_process_that_is_gone_is_not_waited_for() {
        let mut discovery = Discovery::default();
        discovery.insert(&profile::Process {
            pid: u32::MAX,
            ..profile::Process::default()
        });
        discovery.set_due(u32::MAX, Some(Instant::now()));
        assert!(discovery.examine_due(Instant::now()).is_none());
        assert_eq!(discovery.next_due(), None);
        let exited = event(ProcessEventKind::EXITED, u32::MAX, 0);
        assert!(discovery.on_event(&exited).is_none());
        assert!(discovery.known.is_empty());
    }

    #[test]
    fn with_delay_a_program_is_looked_at_when_it_is_sampled_or_has_run_for_a_while() {
        let mut discovery = Discovery::delayed(Duration::from_secs(60));
        let executed = event(ProcessEventKind::EXECUTED, id(), 0);
        assert!(discovery.on_event(&executed).is_none());
        assert!(discovery.examine_due(Instant::now()).is_none());
        let due = discovery.next_due().unwrap();
        assert!(discovery.examine_due(due).is_some());
        assert!(discovery.on_event(&executed).is_none());
        let mapped = event(ProcessEventKind::MAPPED, id(), 0);
        assert!(discovery.on_event(&mapped).is_some());
        assert_eq!(discovery.next_due(), None);
    }
}
