//! Processes that go on when those with which a capture began have ended: what they have started.
//!
//! Invariant: whoever has started another process is known to have ended after the other one is known, since their events
//! come in their order. So none is missed that started at the last moment; one whose end is not sent is found out.

use std::collections::HashSet;

use agent_common::record::ProcessEventKind;
use anyhow::Result;
use tokio::time::{Instant, interval_at};

use super::{
    Session, TICK,
    clock::Began,
    end::{End, EndReason, has_ended},
    observer::Observer,
    rescan::event,
};

impl Session {
    /// Samples until all known processes have ended, or until `end`, for which no process counts any more.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail.
    pub async fn run_remaining<O: Observer>(
        &mut self,
        began: &Began,
        end: &mut End,
        observer: &mut O,
    ) -> Result<EndReason> {
        let mut ended = HashSet::new();
        // What ends within the first one is not worth a word.
        let mut looks = interval_at(Instant::now() + TICK, TICK);
        while self.has_known(observer).await? {
            tokio::select! {
                reason = end.wait_longer() => return Ok(reason),
                wake = self.wait() => self.act(wake, observer)?,
                _ = looks.tick() => {
                    let remaining = self.remaining(&mut ended, observer)?;
                    observer.on_remaining(&remaining);
                }
            }
            self.bpf.sync_online_cpus()?;
            observer.on_progress(began.at.elapsed(), self.samples());
        }
        Ok(EndReason::ProcessEnded)
    }

    /// Whether a process is known that may go on.
    async fn has_known<O: Observer>(&mut self, observer: &mut O) -> Result<bool> {
        if self.discovery.known().next().is_none() {
            // One that was gone when it was examined is forgotten before its events have come, and what it has started is
            // known by these alone.
            self.drain.read().await?;
            while let Some(events) = self.drain.waiting_events() {
                self.act_on(&events, observer)?;
            }
        }
        Ok(self.discovery.known().next().is_some())
    }

    /// The known processes that go on. Removes those that had `ended` at the last call already: the events of others may be
    /// on their way.
    fn remaining<O: Observer>(
        &mut self,
        ended: &mut HashSet<u32>,
        observer: &mut O,
    ) -> Result<Vec<u32>> {
        let mut known: Vec<u32> = self.discovery.known().collect();
        known.sort_unstable();
        let (gone, remaining): (Vec<u32>, _) = known.into_iter().partition(|pid| has_ended(*pid));
        let mut result = Ok(());
        for pid in gone.iter().filter(|pid| ended.contains(pid)) {
            result = result.and(self.on_event(&event(ProcessEventKind::EXITED, *pid), observer));
        }
        *ended = gone.into_iter().collect();
        result.map(|()| remaining)
    }
}
