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

use agent_common::maps::Children;
use tokio::task::JoinSet;

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

/// Followed processes at which no others join; forks of them still do.
const MAX_FOLLOWED: usize = 1024;

/// Most processes that are remembered as left out.
const MAX_LEFT_OUT: usize = 16 << 10;

/// Least time between two looks at all processes.
pub(super) const PAUSE: Duration = Duration::from_secs(5);

/// The same, in times of what such a look takes.
pub(super) const PAUSE_FACTOR: u32 = 50;

/// How processes are found that start later.
#[derive(Clone, Debug)]
pub struct Follow {
    /// What selects them.
    pub matching: Arc<Matching>,
    /// The processes that it has selected already.
    pub matched: HashMap<u32, Match>,
}

/// What is known about processes that start.
pub(super) struct Following {
    matching: Arc<Matching>,
    /// Whether all descendants of selected processes are.
    pub(super) children: bool,
    pub(super) members: HashMap<u32, Member>,
    /// The processes of the beginning that have not ended.
    pub(super) first: HashSet<u32>,
    /// Processes that wait or are being read, and whether they are to be read once more after that.
    pub(super) asked: HashMap<u32, bool>,
    waiting: VecDeque<u32>,
    answers: JoinSet<Answer>,
    /// When to look at all processes; [`None`] while that is done.
    pub(super) next_look: Option<Instant>,
    pub(super) started: u64,
    pub(super) left_out: HashSet<u32>,
}

/// A process that is sampled because it is selected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) by: Match,
    pub(super) is_later: bool,
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
            Some(member) => self.children_by(member.by),
            None => Children::all_if(self.children),
        }
    }

    /// The same with one that is selected by this.
    pub(super) fn children_by(&self, by: Match) -> Children {
        match by {
            _ if self.children => Children::ALL,
            // After an exec a name is another one.
            Match::Name => Children::COPIES,
            Match::Group => Children::ALL,
        }
    }

    /// Finds out whether a process is selected.
    pub(super) fn ask(&mut self, pid: u32, workers: &Workers) {
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
    pub(super) fn read(&mut self, workers: &Workers) {
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
    pub(super) fn look(&mut self, workers: &Workers) {
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
    pub(super) fn add_fork(&mut self, pid: u32, parent: u32) {
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
    pub(super) fn remove(&mut self, pid: u32) -> bool {
        let removed = self.members.remove(&pid);
        if removed.is_some_and(|member| member.is_later) {
            self.started = self.started.saturating_sub(1);
        }
        removed.is_some()
    }

    /// Whether there is room for another process.
    pub(super) fn has_room(&mut self, pid: u32) -> bool {
        let has_room = self.members.len() < MAX_FOLLOWED;
        if !has_room {
            self.leave_out(pid);
        }
        has_room
    }

    pub(super) fn leave_out(&mut self, pid: u32) {
        if self.left_out.len() < MAX_LEFT_OUT {
            self.left_out.insert(pid);
        }
    }
}
