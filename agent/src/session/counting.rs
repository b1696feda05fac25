//! What the thread that drains the ring buffer does with a record: samples are counted, all else is
//! for other threads.
//!
//! Invariants: no file, process or map is read; memory is allocated only where a count is new.

use agent_common::{
    decode::decode,
    decoded::Record,
    record::{
        AbsentPage, LockRelease, ProcessEvent, ProcessEventKind, ProfileKind, RecordKind, Sample,
        WantedTable,
    },
};
use zerocopy::FromBytes as _;

#[cfg(feature = "recorder")]
use super::recorder;
use super::{
    allocations,
    lock_releases::LockReleases,
    pages::{PageEvent, PageSender},
    running_threads::{Paid, RunningThreads},
    traced_times::TracedTimes,
};
use crate::{
    aggregate::{Blocked, Windows},
    bpf::Records,
    threads::{Batch, PassTime, RestChanges, Snapshot, TracedWaits},
};

/// Counts samples.
#[derive(Debug, Default)]
pub struct Counting {
    /// The samples that were not reported yet.
    pub windows: Windows,
    /// Elapsed time of running threads; [`None`] where there are no passes.
    running: Option<RunningThreads>,
    /// Whether samples of CPU time say only where threads ran.
    leaves_out_cpu: bool,
    /// Whether to count apart which thread another one keeps waiting.
    names_blocked: bool,
    /// Waits for locks by who ends them, if that is recorded.
    lock_releases: Option<LockReleases>,
    /// Gets all samples, and says which of them count.
    snapshot: Option<Snapshot>,
    /// The number of the thread that makes passes.
    turn: u32,
    /// Time of threads whose context switches are traced.
    traced_times: TracedTimes,
    /// Gets the traced waits, if there are any.
    traced: Option<TracedWaits>,
    /// Gets the pages by which processes grow, if these are looked at again.
    pages: Option<PageSender>,
    /// Whether the walks of native stacks are continued that are not at their end.
    continues_walks: bool,
}

/// Records that are for other threads.
#[derive(Debug, Default)]
pub struct Received {
    /// Stacks, code objects and names of threads.
    pub references: Records,
    /// What the session acts on.
    pub events: Events,
    /// Native stacks that are to be walked on.
    pub unfinished: Records,
    /// When the first sample was taken, in nanoseconds of the monotonic clock.
    pub first_sample_ns: Option<u64>,
    /// How many records were read.
    pub records: usize,
}

/// What the session acts on.
#[derive(Debug, Default)]
pub struct Events {
    /// What happened to processes.
    pub processes: Vec<ProcessEvent>,
    /// Pages that samples missed.
    pub absent_pages: Vec<AbsentPage>,
    /// Unwind tables that samples missed.
    pub wanted_tables: Vec<WantedTable>,
}

impl Events {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.processes.len() + self.absent_pages.len() + self.wanted_tables.len()
    }
}

impl Counting {
    /// Counts samples of passes, and those of CPU time if they are wanted too. `names_blocked`: which
    /// thread another one keeps waiting is counted apart.
    pub(super) fn with_passes(wants_cpu: bool, names_blocked: bool) -> Self {
        Self {
            running: Some(RunningThreads::default()),
            leaves_out_cpu: !wants_cpu,
            names_blocked,
            ..Self::default()
        }
    }

    /// Has pages looked at again by which processes grow.
    pub(super) fn with_pages(self, pages: Option<PageSender>) -> Self {
        Self { pages, ..self }
    }

    /// Has sampled waits looked at by those who make passes.
    pub(super) fn with_traced_waits(self, traced: Option<TracedWaits>) -> Self {
        Self { traced, ..self }
    }

    /// Has the walks of native stacks continued that are not at their end.
    pub(super) fn with_continued_walks(self, continues_walks: bool) -> Self {
        Self {
            continues_walks,
            ..self
        }
    }

    /// Keeps the times of samples too.
    pub(super) fn with_times(self) -> Self {
        Self {
            windows: Windows::with_times(),
            traced_times: self.traced_times.with_times(),
            ..self
        }
    }

    /// Counts waits for locks by who ends them too.
    pub(super) fn with_lock_releases(self) -> Self {
        Self {
            lock_releases: Some(LockReleases::default()),
            ..self
        }
    }

    /// Counts the samples of a snapshot alone, at the end of the window.
    pub(super) fn with_snapshot(self, snapshot: Option<Snapshot>) -> Self {
        Self { snapshot, ..self }
    }

    /// Counts what a pass has found, and adds the rest to `received`.
    pub(super) fn receive_batch(&mut self, batch: &Batch, received: &mut Received) {
        match &self.snapshot {
            Some(snapshot) => snapshot.add_batch(batch),
            None => self.count_batch(batch),
        }
        for record in batch.references.iter() {
            #[cfg(feature = "recorder")]
            recorder::record(record);
            received.references.push(record);
        }
        received.events.wanted_tables.extend(&batch.wanted_tables);
    }

    /// Counts what a pass has found.
    fn count_batch(&mut self, batch: &Batch) {
        self.count_rests(&batch.rest_changes);
        for sample in &batch.samples {
            self.traced_times.note(sample);
            self.windows.add_sample(sample);
        }
        for sample in batch.gil_held.iter().chain(&batch.tasks) {
            self.windows.add_sample(sample);
        }
        for sample in &batch.traced_waits {
            self.traced_times.add(sample);
        }
        for time in &batch.traced_times {
            if let Some(sample) = self.traced_times.add_time(time) {
                self.windows.add_sample(&sample);
            }
        }
        for waiting in &batch.lock_waits {
            self.windows.add_lock_sample(&waiting.sample, waiting.lock);
            let ended = self.lock_releases.as_mut().map(|it| it.add(waiting));
            for (sample, blocked) in ended.unwrap_or_default() {
                self.add_blocking(&sample, blocked);
            }
        }
        self.add_paid(batch.gil_waits.iter().copied());
        if let Some(known) = &mut self.running {
            known.begin_pass(batch.rest_changes.pass.map_or(0, |pass| pass.time_ns));
            let mut samples: Vec<_> = batch
                .running
                .iter()
                .filter_map(|it| known.add(it))
                .collect();
            samples.extend(batch.blocked.iter().filter_map(|it| known.add_blocked(it)));
            samples.extend(batch.holding.iter().filter_map(|it| known.add_holding(it)));
            known.end_pass();
            self.add_paid(samples);
        }
    }

    /// Counts threads that rest.
    fn count_rests(&mut self, changes: &RestChanges) {
        if changes.turn < self.turn {
            return;
        }
        if changes.turn > self.turn {
            self.turn = changes.turn;
            self.windows.end_rests();
        }
        for tid in &changes.ended {
            self.windows.end_rest(*tid);
        }
        if let Some(PassTime {
            time_ns,
            elapsed_ns,
        }) = changes.pass
        {
            self.windows.add_pass(time_ns, elapsed_ns);
        }
        for sample in &changes.begun {
            self.windows.begin_rest(*sample);
        }
    }

    /// Counts the stacks of a snapshot.
    fn count_snapshot(&mut self) {
        let threads = self.snapshot.iter().flat_map(Snapshot::threads);
        for stack in threads.filter_map(|thread| thread.stack) {
            self.windows.add_lock_sample(&stack.sample, stack.lock);
        }
    }

    /// Counts what has waited for samples of CPU time until the end of a window.
    pub(super) fn end_window(&mut self) {
        for sample in self.traced_times.end_window() {
            self.windows.add_sample(&sample);
        }
        let unpaid = self.running.as_mut().map(RunningThreads::end_window);
        self.add_paid(unpaid.unwrap_or_default());
        let unended = self.lock_releases.as_mut().map(LockReleases::end_window);
        for (sample, blocked) in unended.unwrap_or_default() {
            self.add_blocking(&sample, blocked);
        }
        self.count_snapshot();
    }

    fn add_paid(&mut self, samples: impl IntoIterator<Item = Paid>) {
        for (sample, kept) in samples {
            let blocked = Blocked {
                thread: kept.tid,
                is_stopped: kept.is_stopped,
                ..Blocked::default()
            };
            self.add_blocking(&sample, blocked);
        }
    }

    /// Counts a sample of a thread that keeps another one waiting.
    fn add_blocking(&mut self, sample: &Sample, blocked: Blocked) {
        let thread = if self.names_blocked {
            blocked.thread
        } else {
            0
        };
        let blocked = Blocked { thread, ..blocked };
        self.windows.add_blocking_sample(sample, blocked);
    }

    fn add_release(&mut self, release: &LockRelease) {
        let ended = self.lock_releases.as_mut();
        if let Some((sample, blocked)) = ended.and_then(|releases| releases.end(release)) {
            self.add_blocking(&sample, blocked);
        }
    }

    fn add_sample(&mut self, sample: &Sample) {
        if let Some(snapshot) = &self.snapshot {
            snapshot.add_sample(sample);
            return;
        }
        if sample.kind == ProfileKind::AT_PASS {
            if let Some(running) = &mut self.running {
                running.note_at_pass(sample);
            }
            return;
        }
        if sample.kind == ProfileKind::CPU
            && let Some(running) = &mut self.running
        {
            let paid = running.pay(sample);
            self.add_paid(paid);
            if self.leaves_out_cpu {
                return;
            }
        }
        self.windows.add_sample(sample);
    }

    /// Sends what has happened to the memory of a process to whoever looks at its pages.
    fn add_page_event(&mut self, event: PageEvent) {
        let Some(pages) = &self.pages else {
            return;
        };
        pages.send(event);
        if let PageEvent::New(page) = event
            && pages.wants_growth
        {
            self.add_sample(&page.sample);
        }
    }

    /// Counts a sample, or adds another record to `received`.
    pub fn receive(&mut self, bytes: &[u8], received: &mut Received) {
        #[cfg(feature = "recorder")]
        recorder::record(bytes);
        received.records += 1;
        if is_reference(bytes) {
            received.references.push(bytes);
            return;
        }
        match decode(bytes) {
            Ok(Record::Sample(sample)) => {
                received.first_sample_ns.get_or_insert(sample.time_ns);
                if sample.kind == ProfileKind::ALLOCATIONS {
                    self.add_sample(&allocations::estimated(sample));
                } else {
                    self.add_sample(&sample);
                }
            }
            Ok(Record::LockRelease(release)) => self.add_release(&release),
            Ok(Record::Raise(raise)) => self.windows.add_raise(&raise),
            Ok(Record::StartedWait(started)) => {
                if let Some(traced) = &self.traced {
                    traced.start(started);
                }
            }
            Ok(Record::EndedWait(ended)) => {
                if let Some(traced) = &self.traced {
                    traced.end(ended);
                }
            }
            Ok(Record::NewPage(page)) => {
                received.first_sample_ns.get_or_insert(page.sample.time_ns);
                self.add_page_event(PageEvent::New(page));
            }
            Ok(Record::GonePage(page)) => self.add_page_event(PageEvent::Gone(page)),
            Ok(Record::MovedMemory(memory)) => self.add_page_event(PageEvent::Moved(memory)),
            Ok(Record::ProcessEvent(event)) => {
                match event.kind {
                    ProcessEventKind::FORKED | ProcessEventKind::EXECUTED => {
                        self.add_page_event(PageEvent::Began(event.tgid));
                    }
                    ProcessEventKind::EXITED | ProcessEventKind::APPEARED => {
                        self.add_page_event(PageEvent::Ended(event.tgid));
                    }
                    _ => {}
                }
                received.events.processes.push(event);
            }
            Ok(Record::AbsentPage(page)) => received.events.absent_pages.push(page),
            Ok(Record::WantedTable(wanted)) => {
                if let Some(snapshot) = &self.snapshot {
                    snapshot.ask_for_table();
                }
                received.events.wanted_tables.push(wanted);
            }
            Ok(Record::StackPage(_) | Record::UnfinishedStack(_)) => {
                if self.continues_walks {
                    received.unfinished.push(bytes);
                }
            }
            Ok(_) | Err(_) => self.windows.add_malformed(),
        }
    }
}

/// Whether a record is one that samples refer to.
fn is_reference(bytes: &[u8]) -> bool {
    let kind = agent_common::record::Header::read_from_prefix(bytes).map(|(header, _)| header.kind);
    matches!(
        kind,
        Ok(RecordKind::STACK
            | RecordKind::NATIVE_STACK
            | RecordKind::CODE_OBJECT
            | RecordKind::LINE_TABLE_PIECE
            | RecordKind::THREAD_NAME
            | RecordKind::LOCK_NAME
            | RecordKind::EXCEPTION_NAME
            | RecordKind::TASK_NAME)
    )
}

#[cfg(test)]
mod tests;
