//! Processes that join a session and leave it while it goes on, by what [`Following`](super::following::Following)
//! finds out.

use std::time::Instant;

use agent_common::record::{ProcessEvent, ProcessEventKind};
use anyhow::Result;
use tracing::debug;

use super::{
    Session,
    end::has_ended,
    following::{Answer, Member, PAUSE, PAUSE_FACTOR},
    observer::{Followed, Observer},
    rescan::event,
};
use crate::targets::selection::Match;

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
                let mut result = self.remove_ended(observer);
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
        let children = following.children_by(by);
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

    /// Looks at all processes if it is time to.
    pub(super) fn look_around(&mut self) {
        if let Some(following) = &mut self.following {
            following.look(&self.examinations.workers);
        }
    }

    /// Removes the followed processes that have ended without an event.
    fn remove_ended<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        let members = self.following.iter().flat_map(|it| it.members.keys());
        for pid in members.copied().collect::<Vec<_>>() {
            if has_ended(pid) || !self.bpf.has_process(pid)? {
                self.bpf.remove_process(pid)?;
                self.on_event(&event(ProcessEventKind::EXITED, pid), observer)?;
            }
        }
        Ok(())
    }
}
