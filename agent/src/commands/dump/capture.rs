//! Takes the stacks of all threads of processes, by a session that rests as soon as it has them.
//!
//! Invariant: between dumps no pass is made and no thread is sampled.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::{
    identities::Identities,
    outside,
    taken::{Capture, Processes, Subjects, Taking, shown},
};
use crate::{
    bpf::{self, Unmet},
    commands::cli::{DumpOptions, ShownFrames},
    profile::{Periods, kinds::wall},
    session::{Began, End, EndReason, Scope, Session, Signals, memory},
    symbolize::{CpuShare, CpuShares, NativeSymbolizer},
    text::with_causes,
};

/// Stacks and processes that a session remembers before another one takes its place.
const MAX_REMEMBERED: usize = 50_000;

/// Takes dumps, one after another, by one session for as long as its processes are those that are wanted, and as they were.
pub(super) struct Captures<'a> {
    options: &'a DumpOptions,
    session: Option<Box<OpenSession>>,
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
        let mut session = match self.current_session().await {
            Some(session) => session,
            None => Box::new(OpenSession::open(self.options).await?),
        };
        let capture = session.take(self.options).await?;
        self.session = session.may_go_on.then_some(session);
        Ok(capture)
    }

    /// The session, if its processes are still those that are wanted; else it has ended when this returns.
    async fn current_session(&mut self) -> Option<Box<OpenSession>> {
        let session = self.session.take()?;
        session.is_current(self.options).await.then_some(session)
    }

    /// Lets time pass until the next dump. Cancel safe.
    pub(super) async fn rest_until(&mut self, next: Instant) {
        if let Some(session) = &mut self.session {
            let rested = tokio::select! {
                rested = session.rest() => rested,
                () = sleep_until(next) => Ok(()),
            };
            if let Err(error) = rested {
                debug!("a new session is opened: {}", with_causes(&error));
                self.session = None;
            }
        }
        sleep_until(next).await;
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
    /// Its processes as they were before it was opened; [`None`] where there is one dump.
    identities: Option<Identities>,
    taking: Taking,
    found: Processes,
    end: End,
    periods: Periods,
    /// The beginning of the present or last dump.
    began: Began,
    /// Stacks that it has taken.
    stacks: usize,
    may_go_on: bool,
}

impl OpenSession {
    async fn open(options: &DumpOptions) -> Result<Self> {
        let Subjects {
            examinations,
            found,
            settings,
            taking,
        } = Subjects::examine(options, options.native).await?;
        let identities = if options.repeat == 1 {
            None
        } else {
            Some(Identities::of(&found, &examinations, options).await)
        };
        let mut signals = Signals::to_end()?;
        let scope = Scope::of(found, options.children);
        let mut found = Processes::default();
        let opened = Session::open(&settings, examinations, scope, &mut signals, &mut found);
        let session = opened.await?;
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
            identities,
            taking,
            found,
            end,
            periods: settings.periods,
            began: Began::now(),
            stacks: 0,
            may_go_on: true,
        })
    }

    /// Whether its processes are those that are wanted, and are as they were when it was opened.
    async fn is_current(&self, options: &DumpOptions) -> bool {
        if self.stacks + self.found.len() > MAX_REMEMBERED {
            return false;
        }
        let now = Identities::read(self.session.examinations(), options).await;
        // Why there are none is said when another one is opened.
        now.is_ok_and(|now| self.identities.as_ref() == Some(&now))
    }

    async fn take(&mut self, options: &DumpOptions) -> Result<Capture> {
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
        let (profile, may_go_on) = finished.await?;
        self.may_go_on = may_go_on && reason == EndReason::TimeOver;
        let capture = ended.with(profile, &self.found, None)?;
        self.stacks += capture.threads.len();
        Ok(capture)
    }

    /// Goes on without taking stacks until the processes have ended. Cancel safe.
    async fn rest(&mut self) -> Result<()> {
        let (end, found) = (&mut self.end, &mut self.found);
        let ended = self.session.run(&self.began, end, None, found).await;
        ended.map(drop)
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
