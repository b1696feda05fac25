//! What the followed processes run: found once, and again when something happened to them.
//!
//! Events come in, findings go out; where they go is for others to say. Nothing is polled: a
//! process is looked at when it is new, when it runs another program, and when it has mapped more
//! code or less. The last may happen often (a compiler at run time maps code all the time), so
//! looks at one process come ever more seldom until there was a time without. On a host most
//! programs end within milliseconds: there a program is looked at when it is sampled, or when it
//! has run for a moment.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::record::{ProcessEvent, ProcessEventKind};

use crate::{
    bpf::MAX_PROCESSES,
    process::{self, Descendant, Process},
    profile,
    python::{self, Detector, Interpreter},
};

/// Time between the first two looks at a process.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// Longest time between two looks at a process that maps more code.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Time without a look after which the next pause is the first again.
const QUIET: Duration = Duration::from_secs(1);

/// What was found out about a process.
#[derive(Debug)]
pub struct Finding {
    /// The process.
    pub process: profile::Process,
    /// Its interpreter, if it runs Python and that was not known before.
    pub interpreter: Option<Box<Interpreter>>,
    /// The process as it was looked at; [`None`] if it has just been forked, and is all that its
    /// parent is.
    pub opened: Option<Process>,
}

/// The processes that are followed.
#[derive(Debug, Default)]
pub struct Discovery {
    known: HashMap<u32, Known>,
    /// Processes at which to look without another event, by when; see [`Known::due`].
    due: BTreeSet<(Instant, u32)>,
    detector: Detector,
    /// How long a program runs before it is looked at if it is not sampled.
    patience: Duration,
}

/// What is known of a process.
#[derive(Debug)]
struct Known {
    process: profile::Process,
    /// Looks in short succession.
    looks: u32,
    /// When the last one was.
    looked: Instant,
    /// When the next one is due, if there is to be one.
    due: Option<Instant>,
    /// Whether its program has not been looked at yet.
    is_new: bool,
}

impl Known {
    /// How long to wait after the last look.
    fn pause(&self) -> Duration {
        FIRST_PAUSE
            .saturating_mul(1 << self.looks.min(16))
            .min(LONGEST_PAUSE)
    }
}

impl Discovery {
    /// One for a host, where a new program is not looked at before it is sampled or has run for
    /// `patience`.
    #[must_use]
    pub fn patient(patience: Duration) -> Self {
        Self {
            patience,
            ..Self::default()
        }
    }

    /// Begins with a process, whatever it runs; tells why it has no Python frames if it has none.
    ///
    /// # Errors
    ///
    /// When it is gone or cannot be looked at.
    pub fn add(&mut self, pid: u32) -> Result<(Finding, Option<python::Error>), process::Error> {
        let process = Process::open(pid)?;
        Ok(self.examine(process, None))
    }

    /// Begins with a process that is going to run something, nobody knows yet what.
    pub fn add_unknown(&mut self, pid: u32) {
        let process = profile::Process {
            pid,
            ..profile::Process::default()
        };
        self.learn(&process);
    }

    /// Begins with a process that another one has started, whatever it runs.
    pub fn add_descendant(&mut self, descendant: Descendant) -> Option<Finding> {
        self.look(descendant.pid, Some(descendant.parent))
    }

    /// Takes notice of what happened to a process.
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

    /// When a process has to be looked at without another event.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Looks at a process for which it is time, if there is one.
    pub fn look_when_due(&mut self, now: Instant) -> Option<Finding> {
        loop {
            let (_, pid) = *self.due.first().filter(|(due, _)| *due <= now)?;
            self.set_due(pid, None);
            // One that is gone meanwhile is passed over.
            if let Some(finding) = self.look_again(pid) {
                return Some(finding);
            }
        }
    }

    /// A new process is a copy of its parent, in the kernel half too.
    fn on_fork(&mut self, pid: u32, parent: u32) -> Option<Finding> {
        let Some(original) = self.known.get(&parent) else {
            return self.look_again(pid);
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
        self.learn(&finding.process);
        if let Some(known) = self.known.get_mut(&pid) {
            known.is_new = is_new;
        }
        self.set_due(pid, due);
        Some(finding)
    }

    /// It runs another program.
    fn on_execution(&mut self, pid: u32) -> Option<Finding> {
        if self.patience.is_zero() {
            if let Some(known) = self.known.get_mut(&pid) {
                known.looks = 0;
            }
            return self.look_again(pid);
        }
        if !self.known.contains_key(&pid) {
            self.add_unknown(pid);
        }
        if let Some(known) = self.known.get_mut(&pid) {
            known.looks = 0;
            known.is_new = true;
            self.set_due(pid, Some(Instant::now() + self.patience));
        }
        None
    }

    /// More code is mapped, or less.
    fn on_mapping(&mut self, pid: u32) -> Option<Finding> {
        let Some(known) = self.known.get_mut(&pid) else {
            return self.look_again(pid);
        };
        let due = known.looked + known.pause();
        if due > Instant::now() && !known.is_new {
            self.set_due(pid, Some(due));
            return None;
        }
        self.look_again(pid)
    }

    /// Says when a process that is known is to be looked at without another event.
    fn set_due(&mut self, pid: u32, due: Option<Instant>) {
        if let Some(known) = self.known.get_mut(&pid) {
            if let Some(before) = known.due.take() {
                self.due.remove(&(before, pid));
            }
            known.due = due;
            self.due.extend(due.map(|due| (due, pid)));
        }
    }

    fn look_again(&mut self, pid: u32) -> Option<Finding> {
        let parent = self.known.get(&pid).and_then(|known| known.process.parent);
        self.look(pid, parent)
    }

    fn look(&mut self, pid: u32, parent: Option<u32>) -> Option<Finding> {
        // A process that is gone keeps the name that it had.
        let process = Process::open(pid).ok()?;
        Some(self.examine(process, parent).0)
    }

    /// Looks for Python in a process and learns what it is; if that is none, also why.
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
        self.learn(&process);
        if obstacle.as_ref().is_some_and(is_early)
            && let Some(known) = self.known.get(&process.pid)
        {
            let due = known.looked + known.pause();
            self.set_due(process.pid, Some(due));
        }
        let finding = Finding {
            process,
            interpreter,
            opened: Some(opened),
        };
        (finding, obstacle)
    }

    fn learn(&mut self, process: &profile::Process) {
        let pid = process.pid;
        let now = Instant::now();
        let looks = match self.known.get(&pid) {
            Some(known) if now.duration_since(known.looked) < QUIET => known.looks + 1,
            _ => 0,
        };
        // More are sampled without a name.
        if self.known.len() >= MAX_PROCESSES && !self.known.contains_key(&pid) {
            return;
        }
        self.set_due(pid, None);
        let known = Known {
            process: process.clone(),
            looks,
            looked: now,
            due: None,
            is_new: false,
        };
        self.known.insert(pid, known);
    }
}

/// Whether a process may just be about to map its interpreter.
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
                assert!(discovery.look_when_due(due).is_some());
            }
        }
        assert!(discovery.on_event(&mapped).is_none());
        let due = discovery.next_due().unwrap();
        assert!(due > Instant::now() + LONGEST_PAUSE / 2);
    }

    #[test]
    fn a_process_that_is_gone_is_not_waited_for() {
        let mut discovery = Discovery::default();
        discovery.learn(&profile::Process {
            pid: u32::MAX,
            ..profile::Process::default()
        });
        discovery.set_due(u32::MAX, Some(Instant::now()));
        assert!(discovery.look_when_due(Instant::now()).is_none());
        assert_eq!(discovery.next_due(), None);
        let exited = event(ProcessEventKind::EXITED, u32::MAX, 0);
        assert!(discovery.on_event(&exited).is_none());
        assert!(discovery.known.is_empty());
    }

    #[test]
    fn with_patience_a_program_is_looked_at_when_it_is_sampled_or_has_run_for_a_while() {
        let mut discovery = Discovery::patient(Duration::from_secs(60));
        let executed = event(ProcessEventKind::EXECUTED, id(), 0);
        assert!(discovery.on_event(&executed).is_none());
        assert!(discovery.look_when_due(Instant::now()).is_none());
        let due = discovery.next_due().unwrap();
        assert!(discovery.look_when_due(due).is_some());
        assert!(discovery.on_event(&executed).is_none());
        let mapped = event(ProcessEventKind::MAPPED, id(), 0);
        assert!(discovery.on_event(&mapped).is_some());
        assert_eq!(discovery.next_due(), None);
    }
}
