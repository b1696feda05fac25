//! Processes that start while a capture goes on, and are selected as those were with which it began.
//!
//! A fork of a selected process is a copy of it and is sampled from its first instruction on. The BPF programs tell
//! of each program that another process executes: whether that is selected is read of it by workers, within a
//! millisecond or two. Every few seconds all processes are looked at: those that were renamed, or moved to another
//! control group, without an exec, and those that there was no time for.
//!
//! Invariants: nothing of a process is read here; what waits, what is being read and what is followed are bounded;
//! processes that end are removed, whether their events arrive or not.

use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{maps::Children, record::ProcessEvent, record::ProcessEventKind};
use anyhow::Result;
use tokio::task::JoinSet;
use tracing::debug;

use super::{Session, end::has_ended, observer::Observer, rescan::event};
use crate::{
    targets::selection::{Match, Matching},
    workers::{Failure, Lane, Subject, Workers},
};

/// Time for finding out whether a process is selected, or which of all are.
const LIMIT: Duration = Duration::from_secs(10);

/// Most processes that are being read: more would hold up the examinations of those that are selected.
const MAX_IN_WORK: usize = 64;

/// Most processes that wait for that; more are found when all are looked at, if they still run.
const MAX_WAITING: usize = 16 << 10;

/// Most processes that are followed at the same time, besides those that these start.
const MAX_FOLLOWED: usize = 1024;

/// Most processes that are remembered as left out.
const MAX_LEFT_OUT: usize = 16 << 10;

/// Least time between two looks at all processes.
const PAUSE: Duration = Duration::from_secs(5);

/// The same, in times of what such a look takes.
const PAUSE_FACTOR: u32 = 50;

/// How processes are found that start later.
#[derive(Clone, Debug)]
pub struct Follow {
    /// What selects them.
    pub matching: Arc<Matching>,
    /// The processes that it has selected already.
    pub matched: HashMap<u32, Match>,
}

/// What became of processes that started later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// How many have been sampled.
    pub started: u64,
    /// How many have not, because too many ran at the time.
    pub left_out: usize,
    /// How many are sampled now, with those that ran before.
    pub running: usize,
}

/// What is known about processes that start.
pub(super) struct Following {
    matching: Arc<Matching>,
    /// Whether all descendants of selected processes are.
    children: bool,
    members: HashMap<u32, Member>,
    /// The processes of the beginning that have not ended.
    first: HashSet<u32>,
    /// Processes that wait or are being read, and whether they are to be read once more after that.
    asked: HashMap<u32, bool>,
    waiting: VecDeque<u32>,
    answers: JoinSet<Answer>,
    /// When to look at all processes; [`None`] while that is done.
    next_look: Option<Instant>,
    started: u64,
    left_out: HashSet<u32>,
}

/// A process that is sampled because it is selected.
#[derive(Clone, Copy, Debug)]
struct Member {
    by: Match,
    is_later: bool,
}

/// What workers have found out.
pub(super) enum Answer {
    /// Whether a process is selected.
    Of(u32, Result<Option<Match>, Failure>),
    /// All that are, and how long that took.
    OfAll(Vec<(u32, Match)>, Duration),
}

impl Following {
    pub(super) fn new(follow: Follow, children: bool) -> Self {
        let members = follow.matched.into_iter().map(|(pid, by)| {
            let is_later = false;
            (pid, Member { by, is_later })
        });
        let members: HashMap<_, _> = members.collect();
        Self {
            matching: follow.matching,
            children,
            first: members.keys().copied().collect(),
            members,
            asked: HashMap::new(),
            waiting: VecDeque::new(),
            answers: JoinSet::new(),
            // At once: processes may have started while the programs were loaded.
            next_look: Some(Instant::now()),
            started: 0,
            left_out: HashSet::new(),
        }
    }

    /// Which processes that a selected one starts are sampled without being asked about.
    pub(super) fn children_of(&self, pid: u32) -> Children {
        match self.members.get(&pid) {
            _ if self.children => Children::ALL,
            Some(member) => children(member.by),
            None => Children::NONE,
        }
    }

    /// Finds out whether a process is selected.
    fn ask(&mut self, pid: u32, workers: &Workers) {
        match self.asked.entry(pid) {
            Entry::Occupied(mut asked) => *asked.get_mut() = true,
            Entry::Vacant(_) if self.waiting.len() >= MAX_WAITING => self.look_soon(),
            Entry::Vacant(asked) => {
                asked.insert(false);
                self.waiting.push_back(pid);
            }
        }
        self.read(workers);
    }

    /// Has as many processes read as may be at a time.
    fn read(&mut self, workers: &Workers) {
        while self.answers.len() < MAX_IN_WORK
            && let Some(pid) = self.waiting.pop_front()
        {
            if let Some(again) = self.asked.get_mut(&pid) {
                *again = false;
            }
            let matching = Arc::clone(&self.matching);
            let subject = Subject::new(("match", pid), format!("the names of process {pid}"));
            let pending = workers.submit(Lane::Processes, subject, LIMIT, move || matching.of(pid));
            self.answers
                .spawn(async move { Answer::Of(pid, pending.result().await) });
        }
    }

    /// Looks at all processes as soon as may be.
    fn look_soon(&mut self) {
        if let Some(next) = &mut self.next_look {
            *next = Instant::now();
        }
    }

    /// Looks at all processes if it is time to.
    fn look(&mut self, workers: &Workers) {
        let is_due = self.next_look.is_some_and(|next| next <= Instant::now());
        // Those that wait are not read twice.
        if !is_due || !self.waiting.is_empty() {
            return;
        }
        self.next_look = None;
        let matching = Arc::clone(&self.matching);
        let subject = Subject::new("matching processes", "the list of processes");
        let look = move || {
            let began = Instant::now();
            (matching.running(), began.elapsed())
        };
        let pending = workers.submit(Lane::Processes, subject, LIMIT, look);
        self.answers.spawn(async move {
            let (all, took) = pending.result().await.unwrap_or((Vec::new(), LIMIT));
            Answer::OfAll(all, took)
        });
    }

    /// The next that workers have found out; cancel safe.
    pub(super) async fn next(&mut self) -> Answer {
        match self.answers.join_next().await {
            Some(Ok(answer)) => answer,
            // Tasks that only wait neither panic nor are cancelled.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// Notes that a process is a copy of another one.
    fn add_fork(&mut self, pid: u32, parent: u32) {
        if let Some(parent) = self.members.get(&parent) {
            let is_later = true;
            self.members.insert(
                pid,
                Member {
                    is_later,
                    ..*parent
                },
            );
            self.started += 1;
        }
    }

    /// Notes that a process is not selected any more; returns whether it was.
    fn remove(&mut self, pid: u32) -> bool {
        let removed = self.members.remove(&pid);
        if removed.is_some_and(|member| member.is_later) {
            self.started = self.started.saturating_sub(1);
        }
        removed.is_some()
    }

    /// Whether there is room for another process.
    fn has_room(&mut self, pid: u32) -> bool {
        let has_room = self.members.len() < MAX_FOLLOWED;
        if !has_room {
            self.leave_out(pid);
        }
        has_room
    }

    fn leave_out(&mut self, pid: u32) {
        if self.left_out.len() < MAX_LEFT_OUT {
            self.left_out.insert(pid);
        }
    }
}

/// What is sampled with a process that is selected by this.
fn children(by: Match) -> Children {
    match by {
        // After an exec a name is another one.
        Match::Name => Children::COPIES,
        Match::Group => Children::ALL,
    }
}

impl Session {
    /// What became of processes that started later; [`None`] where none is followed.
    #[must_use]
    pub fn followed(&self) -> Option<Followed> {
        let following = self.following.as_ref()?;
        Some(Followed {
            started: following.started,
            left_out: following.left_out.len(),
            running: self.discovery.known().count(),
        })
    }

    /// Notes what has happened to a process that is sampled.
    pub(super) fn follow(&mut self, event: &ProcessEvent) {
        let Some(following) = &mut self.following else {
            return;
        };
        let pid = event.tgid;
        match event.kind {
            ProcessEventKind::FORKED => following.add_fork(pid, event.parent),
            ProcessEventKind::EXECUTED => {
                let member = following.members.get(&pid);
                // It may have been moved to another control group before.
                if member.is_some_and(|it| it.by == Match::Group) && !following.children {
                    following.ask(pid, &self.examinations.workers);
                }
            }
            ProcessEventKind::EXITED => {
                following.members.remove(&pid);
                following.first.remove(&pid);
            }
            _ => {}
        }
    }

    /// Finds out whether a process that has executed a program, and is not sampled, is selected.
    pub(super) fn on_appeared<O: Observer>(&mut self, pid: u32, observer: &mut O) {
        if let Some(following) = &mut self.following {
            following.remove(pid);
            following.ask(pid, &self.examinations.workers);
        }
        self.remove_process(pid, observer);
    }

    /// Acts on what workers have found out.
    pub(super) fn on_answer<O: Observer>(
        &mut self,
        answer: Answer,
        observer: &mut O,
    ) -> Result<()> {
        let Some(following) = &mut self.following else {
            return Ok(());
        };
        let workers = &self.examinations.workers;
        match answer {
            Answer::Of(pid, matched) => {
                let again = following.asked.remove(&pid).unwrap_or(false);
                if again {
                    following.ask(pid, workers);
                }
                following.read(workers);
                match matched {
                    _ if again => Ok(()),
                    Ok(Some(by)) => self.join(pid, by),
                    Ok(None) => self.leave(pid, observer),
                    Err(failure) => {
                        debug!("process {pid} is not looked at: {failure}");
                        Ok(())
                    }
                }
            }
            Answer::OfAll(all, took) => {
                let pause = PAUSE.max(took.saturating_mul(PAUSE_FACTOR));
                following.next_look = Some(Instant::now() + pause);
                let mut result = Ok(());
                for (pid, by) in all {
                    // The event of one that was just forked is on its way.
                    if !self.bpf.has_process(pid)? {
                        result = result.and(self.join(pid, by));
                    }
                }
                result
            }
        }
    }

    /// Samples a process from now on.
    fn join(&mut self, pid: u32, by: Match) -> Result<()> {
        let Some(following) = &mut self.following else {
            return Ok(());
        };
        let is_known = following.members.contains_key(&pid) || self.discovery.is_known(pid);
        if is_known || !following.has_room(pid) {
            return Ok(());
        }
        let children = if following.children {
            Children::ALL
        } else {
            children(by)
        };
        if let Err(error) = self.bpf.add_process(pid, None, children) {
            debug!("process {pid} is left out: {error}");
            following.leave_out(pid);
            return Ok(());
        }
        let is_later = !following.first.contains(&pid);
        following.started += u64::from(is_later);
        following.members.insert(pid, Member { by, is_later });
        self.begin(pid, None)
    }

    /// Samples a process no longer that is not selected any more.
    fn leave<O: Observer>(&mut self, pid: u32, observer: &mut O) -> Result<()> {
        let was_selected = self.following.as_mut().is_some_and(|it| it.remove(pid));
        // It may have been taken for selected just before it executed another program.
        if was_selected || (!self.discovery.is_known(pid) && self.bpf.has_process(pid)?) {
            self.bpf.remove_process(pid)?;
        }
        if was_selected {
            self.remove_process(pid, observer);
        }
        Ok(())
    }

    /// Forgets a process that goes on without being sampled.
    fn remove_process<O: Observer>(&mut self, pid: u32, observer: &mut O) {
        if self.discovery.is_known(pid) {
            self.forget_program(pid);
            self.end_process(pid, observer);
            // An end leads to nothing.
            let _ = self
                .discovery
                .on_event(&event(ProcessEventKind::EXITED, pid));
        }
    }

    /// Looks at all processes if it is time to, and removes those that have ended without an event.
    pub(super) fn look_around<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        let Some(following) = &mut self.following else {
            return Ok(());
        };
        following.look(&self.examinations.workers);
        let members: Vec<_> = following.members.keys().copied().collect();
        for pid in members {
            if has_ended(pid) || !self.bpf.has_process(pid)? {
                self.bpf.remove_process(pid)?;
                self.on_event(&event(ProcessEventKind::EXITED, pid), observer)?;
            }
        }
        Ok(())
    }
}
