//! A capture while it goes on: reads what the kernel half sends, and tells it what the processes
//! run.

use std::time::{Duration, Instant};

use agent_common::{
    counter::Counter,
    maps::KERNEL_THREADS,
    record::{AbsentPage, ProcessEvent, ProcessEventKind},
};
use anyhow::Result;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};

use super::{
    code::{Done, FollowedCode},
    end::{End, Why},
    host::{KERNEL, Population},
    names::{Names, NativeNames},
};
use crate::{
    aggregate::{About, Aggregator, Filter},
    decode::decode,
    discover::{Discovery, Finding},
    kernel::{Counters, Kernel, Python},
    launch::Program,
    process::{self, Descendant},
    profile::{self, Profile},
    record::Record,
    report::Progress,
    symbolize::Symbolizer,
};

/// How often the ring buffer is read when the kernel half does not ask for it.
const READ_EVERY: Duration = Duration::from_millis(200);

/// Ticks at which the ring buffer is read.
pub(super) fn reading() -> Interval {
    let mut ticks = interval(READ_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// What has been read of the ring buffer, and what is known of the processes.
pub(super) struct Capture {
    pub(super) aggregator: Aggregator,
    pub(super) symbolizer: Symbolizer,
    pub(super) discovery: Discovery,
    /// What code the processes run; [`None`] when only Python frames are wanted.
    pub(super) code: Option<FollowedCode>,
    /// The processes of the host; [`None`] in a capture of a process or a program.
    pub(super) population: Option<Population>,
    /// Whether to look at who holds the GIL.
    with_gil: bool,
    /// What happened since it was last dealt with.
    events: Vec<ProcessEvent>,
    absent_pages: Vec<AbsentPage>,
}

impl Capture {
    pub(super) fn new(discovery: Discovery, with_gil: bool, with_native: bool) -> Self {
        Self {
            aggregator: Aggregator::default(),
            symbolizer: Symbolizer::default(),
            discovery,
            code: with_native.then(FollowedCode::default),
            population: None,
            with_gil,
            events: Vec::new(),
            absent_pages: Vec::new(),
        }
    }

    /// Reads the ring buffer until the capture is over.
    pub(super) async fn follow(
        &mut self,
        kernel: &mut Kernel,
        end: &mut End,
        program: Option<&Program>,
        began: Instant,
        duration: Option<Duration>,
    ) -> Result<Why> {
        // A program has the terminal for itself.
        let progress = match program {
            Some(_) => None,
            None => duration.map(Progress::new),
        };
        let mut ticks = reading();
        let why = loop {
            let mut done = Vec::new();
            let why = tokio::select! {
                why = end.wait(program) => Some(why),
                tables = tables_done(self.code.as_mut()) => {
                    done = tables;
                    None
                }
                pressed = kernel.pressed() => pressed.map(|()| None)?,
                () = due(self.discovery.next_due()) => None,
                _ = ticks.tick() => None,
            };
            self.drain(kernel)?;
            kernel.follow_processors()?;
            if let Some(code) = &mut self.code
                && !done.is_empty()
            {
                code.go_on(kernel, done)?;
            }
            if let Some(progress) = &progress {
                progress.update(began.elapsed(), self.aggregator.samples());
            }
            if let Some(why) = why {
                break why;
            }
        };
        if let Some(progress) = progress {
            progress.finish();
        }
        Ok(why)
    }

    /// Reads all that is waiting, and does what has to be done about it; tells of the first thing
    /// that went wrong when all else is done.
    pub(super) fn drain(&mut self, kernel: &mut Kernel) -> Result<()> {
        kernel.drain(|bytes| self.take(bytes));
        let mut result = Ok(());
        for event in std::mem::take(&mut self.events) {
            result = result.and(self.follow_event(kernel, &event));
        }
        while let Some(finding) = self.discovery.look_when_due(Instant::now()) {
            result = result.and(self.apply(kernel, finding));
        }
        for page in self.absent_pages.drain(..) {
            process::fetch(page.tgid, page.address, page.bytes);
        }
        result
    }

    /// Takes notice of what happened to a process, and of what was found out about it then.
    fn follow_event(&mut self, kernel: &mut Kernel, event: &ProcessEvent) -> Result<()> {
        match self.on_event(kernel, event)? {
            Some(finding) => self.apply(kernel, finding),
            None => Ok(()),
        }
    }

    /// Takes notice of what happened to a process.
    fn on_event(&mut self, kernel: &mut Kernel, event: &ProcessEvent) -> Result<Option<Finding>> {
        let is_fork = event.kind == ProcessEventKind::FORKED;
        if is_fork && !kernel.is_copy(event.tgid, event.parent)? {
            // Forked before the kernel half was told what its parent is by now.
            let found = self.discovery.add_descendant(Descendant {
                pid: event.tgid,
                parent: event.parent,
            });
            if found.is_some() {
                return Ok(found);
            }
        }
        if let Some(code) = &mut self.code {
            code.on_event(kernel, event);
        }
        if event.kind == ProcessEventKind::EXITED
            && let Some(population) = &mut self.population
        {
            population.end(event.tgid);
            self.aggregator.end_process(event.tgid);
        }
        Ok(self.discovery.on_event(event))
    }

    /// Lets all who need it know what was found out about a process.
    pub(super) fn apply(&mut self, kernel: &mut Kernel, finding: Finding) -> Result<()> {
        if let Some(interpreter) = finding.interpreter {
            let python = Python {
                interpreters_head: interpreter.interpreters_head,
                gil_holder: interpreter.gil_holder.filter(|_| self.with_gil),
                thread_pointer_distance: interpreter.thread_pointer_distance,
                layout: interpreter.layout,
            };
            kernel.update_process(finding.process.pid, &python)?;
        }
        if let Some(code) = &mut self.code
            && let Some(opened) = &finding.opened
        {
            code.look_at(kernel, opened)?;
        }
        if let Some(population) = &mut self.population {
            let is_profiled = population.learn(&finding.process, finding.opened.as_ref());
            // A process is included when it begins to run a program, and as its parent when it is
            // forked.
            if !is_profiled || (finding.opened.is_none() && population.ids_matter) {
                kernel.set_excluded(finding.process.pid, !is_profiled)?;
            }
        }
        self.aggregator.add_process(finding.process);
        Ok(())
    }

    /// Begins with the threads that are the kernel's own.
    pub(super) fn add_kernel_threads(&mut self, kernel: &mut Kernel) -> Result<()> {
        kernel.add_process(KERNEL_THREADS, None, false)?;
        if let Some(population) = &mut self.population
            && !population.learn_kernel_threads()
        {
            kernel.set_excluded(KERNEL_THREADS, true)?;
        }
        self.aggregator.add_process(profile::Process {
            pid: KERNEL_THREADS,
            name: KERNEL.to_owned(),
            ..profile::Process::default()
        });
        Ok(())
    }

    /// Makes what native frames need, before there are samples.
    pub(super) async fn prepare(&mut self, kernel: &mut Kernel) -> Result<()> {
        match &mut self.code {
            Some(code) => code.prepare(kernel).await,
            None => Ok(()),
        }
    }

    /// Begins with a process that was there before and runs a program, and all that it starts.
    pub(super) fn add(&mut self, kernel: &mut Kernel, found: Descendant) -> Result<()> {
        let Some(finding) = self.discovery.add_descendant(found) else {
            return Ok(());
        };
        kernel.add_process(found.pid, None, true)?;
        self.apply(kernel, finding)
    }

    /// Takes one record.
    fn take(&mut self, bytes: &[u8]) {
        match decode(bytes) {
            Ok(Record::Sample(sample)) => self.aggregator.add_sample(&sample),
            Ok(Record::Stack(stack)) => self.aggregator.add_stack(stack),
            Ok(Record::CodeObject(code)) => self.symbolizer.add(&code),
            Ok(Record::LineTablePiece(piece)) => self.symbolizer.add_piece(&piece),
            Ok(Record::ThreadName(thread)) => self.aggregator.add_thread(
                thread.head.tgid,
                thread.head.tid,
                self.symbolizer.thread_name(&thread),
            ),
            Ok(Record::ProcessEvent(event)) => self.events.push(event),
            Ok(Record::AbsentPage(page)) => self.absent_pages.push(page),
            Ok(Record::NativeStack(stack)) => self.aggregator.add_native_stack(stack),
            Ok(Record::WantedTable(wanted)) => {
                if let Some(code) = &mut self.code {
                    code.want(&wanted);
                }
            }
            Err(_) => self.aggregator.add_malformed(),
        }
    }

    /// The profile of all that was taken.
    ///
    /// # Errors
    ///
    /// When it is to be of a thread that was not seen.
    pub(super) fn profile(
        mut self,
        about: &About,
        filter: &Filter,
        counters: &Counters,
    ) -> Result<Profile> {
        self.aggregator.check_filter(filter)?;
        let mut native = NativeNames::default();
        let code = self.code.as_ref().map(|code| (&mut native, code.code()));
        let mut names = Names::new(&mut self.symbolizer, code);
        let mut profile = self.aggregator.profile(about, filter, &mut names);
        let losses = &mut profile.losses;
        losses.lost_samples += counters.get(Counter::LOST_SAMPLES);
        losses.left_out_processes = counters.get(Counter::UNTRACKED_PROCESSES);
        losses.lost_native_stacks = counters.get(Counter::LOST_NATIVE_STACKS);
        losses.lost_process_events = counters.get(Counter::LOST_PROCESS_EVENTS);
        Ok(profile)
    }
}

/// Waits until something has been done to unwind tables, or for ever.
pub(super) async fn tables_done(code: Option<&mut FollowedCode>) -> Vec<Done> {
    match code {
        Some(code) => code.done().await,
        None => std::future::pending().await,
    }
}

/// Waits until it is time, or for ever.
pub(super) async fn due(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
