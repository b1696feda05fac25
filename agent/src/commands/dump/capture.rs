//! Takes the stacks of all threads of processes, by a session that rests as soon as it has them.
//!
//! Invariant: between dumps no pass is made and no thread is sampled.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep_until};

use super::{
    outside,
    taken::{Capture, Processes, Subjects, Taking, shown},
};
use crate::{
    bpf::{self, Unmet},
    commands::cli::{DumpOptions, ShownFrames},
    profile::{Periods, kinds::wall},
    session::{Began, End, EndReason, Scope, Session, Signals, memory},
    symbolize::{CpuShare, CpuShares, NativeSymbolizer},
};

/// Dumps after which a session ends, so that what it remembers is bounded.
const MAX_DUMPS: u32 = 1000;

/// Takes dumps, one after another, by one session for as long as its processes are those that are wanted.
pub(super) struct Captures<'a> {
    options: &'a DumpOptions,
    session: Option<OpenSession>,
}

impl<'a> Captures<'a> {
    pub(super) fn new(options: &'a DumpOptions) -> Self {
        memory::limit_arenas();
        Self {
            options,
            session: None,
        }
    }

    /// Takes the stack of each thread of the processes.
    ///
    /// # Errors
    ///
    /// One sentence that says what to do.
    pub(super) async fn next(&mut self) -> Result<Capture> {
        match bpf::check_requirements() {
            Ok(()) => {}
            Err(Unmet::Capabilities(missing)) => {
                return outside::take(self.options, &format!("without {missing}")).await;
            }
            Err(unmet) => return Err(unmet.into()),
        }
        match self.take_with_programs().await {
            // As in a container whose root is not that of the host.
            Err(error) if is_not_permitted(&error) => {
                outside::take(self.options, &format!("as {error}")).await
            }
            taken => taken,
        }
    }

    async fn take_with_programs(&mut self) -> Result<Capture> {
        let is_current = |session: &OpenSession| session.is_current(self.options);
        if !self.session.as_ref().is_some_and(is_current) {
            // The programs are unloaded before others are loaded.
            self.session = None;
            self.session = Some(OpenSession::open(self.options).await?);
        }
        let session = self.session.as_mut().context("there is no session")?;
        session.take(self.options).await
    }

    /// Lets time pass until the next dump; what becomes of the processes meanwhile is taken note of.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail.
    pub(super) async fn rest_until(&mut self, next: Instant) -> Result<()> {
        if let Some(session) = &mut self.session {
            tokio::select! {
                ended = session.rest() => drop(ended?),
                () = sleep_until(next) => {}
            }
        }
        sleep_until(next).await;
        Ok(())
    }
}

/// Whether BPF programs may not be loaded, whatever the capabilities are.
fn is_not_permitted(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<bpf::Error>();
    error.is_some_and(bpf::Error::is_not_permitted)
}

/// A session that takes dumps.
struct OpenSession {
    session: Session,
    taking: Taking,
    found: Processes,
    end: End,
    periods: Periods,
    began: Began,
    dumps: u32,
}

impl OpenSession {
    async fn open(options: &DumpOptions) -> Result<Self> {
        let Subjects {
            examinations,
            found,
            settings,
            taking,
        } = Subjects::examine(options, options.native).await?;
        let mut signals = Signals::to_end()?;
        let scope = Scope::of(found, options.children);
        let mut found = Processes::default();
        let opened = Session::open(&settings, examinations, scope, &mut signals, &mut found);
        let session = opened.await?;
        found.watch(&taking.pids);
        let end = End::new(&taking.pids, None, signals)?;
        let frames = options.frames;
        // The result is nothing.
        drop(session.profiles.run(move |profiles| {
            if let Some(native) = &mut profiles.native {
                limit_look_ups(native, frames);
            }
        }));
        Ok(Self {
            session,
            taking,
            found,
            end,
            periods: settings.periods,
            began: Began::now(),
            dumps: 0,
        })
    }

    /// Whether its processes are those that are wanted, as they were when it was opened.
    fn is_current(&self, options: &DumpOptions) -> bool {
        // Why there are none is said when a session is opened.
        let selected = options.processes.find();
        let selected = selected.map_or(Vec::new(), |selected| selected.processes);
        let selected: BTreeSet<_> = selected.iter().map(|one| one.pid).collect();
        self.dumps < MAX_DUMPS
            && !self.found.have_changed()
            && selected
                .iter()
                .eq(self.taking.pids.iter().collect::<BTreeSet<_>>())
    }

    async fn take(&mut self, options: &DumpOptions) -> Result<Capture> {
        self.found.evict_ended();
        self.dumps += 1;
        self.began = self.session.start_snapshot()?;
        let taken = self.session.take_snapshot(
            &self.began,
            &self.taking.snapshot,
            options.timeout,
            &mut self.end,
            &mut self.found,
        );
        let reason = taken.await?;
        let ended = self.taking.end(options, self.began.at.elapsed(), reason);
        let about = self.began.about(self.periods).of_kind(&wall::KIND);
        let finished =
            self.session
                .end_snapshot(about, shown(), reason, &mut self.end, &mut self.found);
        ended.with(finished.await?, &self.found, None)
    }

    /// Goes on without taking stacks until all of the processes have ended. Cancel safe.
    async fn rest(&mut self) -> Result<EndReason> {
        let (end, found) = (&mut self.end, &mut self.found);
        self.session.run(&self.began, end, None, found).await
    }
}

/// Leaves out what is not shown, and takes longer to look up than all else takes.
pub(super) fn limit_look_ups(native: &mut NativeSymbolizer, frames: ShownFrames) {
    if !frames.kernel {
        native.leave_out_kernel();
    }
    if !frames.inlined {
        let nothing = CpuShare {
            burst: Duration::ZERO,
            per_second: Duration::ZERO,
        };
        native.limit_cpu(CpuShares {
            opening: nothing,
            look_ups: nothing,
        });
    }
}
