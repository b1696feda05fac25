//! What a session waits for, and what it does then.

use std::time::Instant;

use agent_common::record::WantedTable;
use anyhow::Result;
use tracing::warn;

use super::{
    Observer, Session,
    counting::Events,
    examinations::Examined,
    following::{Answer, Following},
    profiles::Profiles,
    until,
    unwind_tables::{TableJob, UnwindTables},
};
use crate::threads::UnfinishedStacks;

/// Why [`Session::wait`] returned.
pub struct Wake(Cause);

enum Cause {
    Events(Events),
    Examined(Box<Examined>),
    Tables(Vec<TableJob>),
    Answered(Answer),
    Wanted(WantedTable),
    Due,
    Tick,
}

impl Session {
    /// Waits until there is something to act on.
    ///
    /// Cancel safe: it may be dropped at any time and called again.
    pub async fn wait(&mut self) -> Wake {
        Wake(tokio::select! {
            events = self.drain.events() => Cause::Events(events),
            examined = self.running.next() => Cause::Examined(Box::new(examined)),
            done = table_jobs(self.unwind_tables.as_mut()) => Cause::Tables(done),
            answer = answers(self.following.as_deref_mut()) => Cause::Answered(answer),
            wanted = wanted_tables(self.unfinished.as_mut()) => Cause::Wanted(wanted),
            () = until(self.discovery.next_due()) => Cause::Due,
            _ = self.ticks.tick() => Cause::Tick,
        })
    }

    /// Acts on what [`Self::wait`] has returned; returns the first error after all of it.
    ///
    /// # Errors
    ///
    /// When a map cannot be written.
    pub fn act<O: Observer>(&mut self, wake: Wake, observer: &mut O) -> Result<()> {
        match wake.0 {
            Cause::Events(events) => self.act_on(&events, observer),
            Cause::Examined(examined) => self.accept(*examined, observer),
            Cause::Tables(done) => self.advance_tables(done),
            Cause::Answered(answer) => self.on_answer(answer, observer),
            Cause::Wanted(wanted) => {
                self.request_table(&wanted);
                Ok(())
            }
            Cause::Due => {
                let mut result = Ok(());
                while let Some(examination) = self.discovery.begin_due(Instant::now()) {
                    result = result.and(self.run_examination(examination));
                }
                result
            }
            Cause::Tick => {
                self.bpf.flush_log();
                if let Some(passes) = &mut self.passes {
                    passes.supervise()?;
                }
                self.look_around();
                // Nobody waits for it.
                drop(self.profiles.run(Profiles::read_jit_names));
                self.forget_due()?;
                if self.profiles.take_lost() {
                    warn!("stacks were dropped because too much was waiting: they are sent again");
                    self.bpf.resend()?;
                }
                self.rescan_after_loss(observer)
            }
        }
    }

    fn advance_tables(&mut self, done: Vec<TableJob>) -> Result<()> {
        let Some(tables) = &mut self.unwind_tables else {
            return Ok(());
        };
        let result = tables.advance(&mut self.bpf, &self.examinations.executables, done);
        self.note_tables();
        self.retry_stacks();
        result
    }
}

/// Waits until it is known whether a process is selected; for ever where that is not asked.
async fn answers(following: Option<&mut Following>) -> Answer {
    match following {
        Some(following) => following.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until tables were compiled or loaded; for ever where there are none.
async fn table_jobs(tables: Option<&mut UnwindTables>) -> Vec<TableJob> {
    match tables {
        Some(tables) => tables.next().await,
        None => std::future::pending().await,
    }
}

/// The next table without which stacks cannot be walked on; for ever where none are.
async fn wanted_tables(unfinished: Option<&mut UnfinishedStacks>) -> WantedTable {
    match unfinished {
        Some(unfinished) => unfinished.wanted().await,
        None => std::future::pending().await,
    }
}
