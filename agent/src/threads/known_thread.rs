//! What is kept about a thread from pass to pass.

use std::{mem, time::Duration};

use agent_common::{
    limits::SHORT_WAIT_NS,
    maps::LockWait,
    record::{Sample, WaitReason},
    visit::ThreadVisit,
};

use super::{
    balance::{Activity, Balance},
    batch::Batch,
    gil::GilWait,
    reason::is_stopped,
    status::PassStatus,
    walker::Walked,
};

/// A thread that was visited.
#[derive(Clone, Debug)]
pub(super) struct KnownThread {
    /// What was last recorded of it.
    pub(super) visit: ThreadVisit,
    /// Its context switches when its stack was read.
    pub(super) read_switches: u64,
    /// Its stack, while it is proved: since then the thread did not run.
    pub(super) stack: Option<Walked>,
    /// The pages from which its last stack was read, by number, unless there are too many.
    pub(super) pages: Box<[u64]>,
    /// Why it waits.
    pub(super) reason: WaitReason,
    /// For how long it had not run when its stack was read, as far as that is known.
    pub(super) rest_ns: u64,
    /// For which GIL, if that is why.
    pub(super) gil: Option<GilWait>,
    /// For which lock, by the hash of its name, if that is why; 0 for none.
    pub(super) lock: u64,
    /// The wait for it, if its end is recorded.
    pub(super) lock_wait: Option<LockWait>,
    /// Whether the end of a wait may still be recorded.
    pub(super) is_noted: bool,
    /// The last wait that was proved and shown.
    pub(super) last_wait: Option<Wait>,
    /// What its sample of the last pass shows.
    pub(super) shown: Shown,
    /// What the kernel's accounts and the samples differ by.
    balance: Balance,
    /// Whether it is in the first part of a traced wait.
    is_short: bool,
    /// How long it was in such parts by now, in nanoseconds, and by the last sample.
    short_ns: u64,
    sampled_short_ns: u64,
    /// Whether its stack was not read in this pass, for lack of time.
    pub(super) is_put_off: bool,
    /// Time of it that is in no sample yet because of that, in nanoseconds.
    pub(super) owed_ns: u64,
    /// When its stack is to be read again although it did not run, in nanoseconds of the monotonic clock;
    /// 0 for never.
    pub(super) again_ns: u64,
    /// How long after the last reading that is.
    backoff_ns: u64,
    /// When its name is to be read, in nanoseconds of the monotonic clock.
    pub(super) name_due_ns: u64,
    /// The last pass that visited it.
    pub(super) pass: u64,
}

/// A wait of a thread, as samples have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) stack: Walked,
    pub(super) reason: WaitReason,
    pub(super) gil: Option<GilWait>,
    /// As [`KnownThread::lock`].
    pub(super) lock: u64,
    /// Context switches of the thread when it began, if its end is recorded; else 0.
    pub(super) switches: u64,
}

impl Wait {
    /// One of which nothing is known.
    pub(super) const UNPROVED: Self = Self {
        stack: Walked::UNPROVED,
        reason: WaitReason::OTHER,
        gil: None,
        lock: 0,
        switches: 0,
    };

    /// Whether the thread waits until another one of its interpreter lets it run.
    pub(super) fn is_to_run(self) -> bool {
        matches!(self.reason, WaitReason::GIL | WaitReason::STOP_THE_WORLD)
    }
}

/// What a sample shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The thread ran, or could run, and where is not known.
    Elsewhere {
        /// Whether it could run and did not.
        is_runnable: bool,
    },
    /// It has its stack, and waited for this; for nothing where the pass had taken its processor.
    Waiting(WaitReason),
    /// It was in the first part of a traced wait, or waited for a processor, and its context switches are traced.
    Traced {
        /// Whether it waited for a processor.
        is_runnable: bool,
    },
    /// It waited as in [`KnownThread::last_wait`]: passes have seen it run, or wait for a processor, more often than it
    /// did by the kernel's accounts.
    Earlier,
}

/// Whether a thread did not run between two visits, before and after its memory was read.
pub(super) fn did_not_run(before: &ThreadVisit, after: &ThreadVisit) -> bool {
    after.on_cpu == 0
        && after.switches == before.switches
        && after.start_time_ns == before.start_time_ns
}

impl KnownThread {
    pub(super) fn new(visit: ThreadVisit) -> Self {
        Self {
            visit,
            read_switches: visit.switches,
            stack: None,
            pages: Box::default(),
            reason: WaitReason::NONE,
            rest_ns: 0,
            gil: None,
            lock: 0,
            lock_wait: None,
            is_noted: false,
            last_wait: None,
            shown: Shown::Waiting(WaitReason::OTHER),
            balance: Balance::default(),
            is_short: false,
            short_ns: 0,
            sampled_short_ns: 0,
            is_put_off: false,
            owed_ns: 0,
            again_ns: 0,
            backoff_ns: 0,
            name_due_ns: 0,
            pass: 0,
        }
    }

    /// Whether this is a visit of the same thread.
    pub(super) fn is(&self, visit: &ThreadVisit) -> bool {
        self.visit.start_time_ns == visit.start_time_ns && self.visit.tgid == visit.tgid
    }

    /// Whether it was created less than 200 ms before this time, in nanoseconds of the monotonic clock.
    pub(super) fn is_new(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.visit.start_time_ns) < NEW_NS
    }

    /// The visit of a thread that has waited ever since its stack was read.
    pub(super) fn unchanged(&self) -> ThreadVisit {
        ThreadVisit {
            on_cpu: 0,
            preempted: 0,
            switches: self.read_switches,
            is_unchanged: 1,
            ..self.visit
        }
    }

    /// The longest pass whose sample would show that it ran, or something else that it did by the kernel's accounts and that
    /// no sample shows yet, in nanoseconds.
    pub(super) fn owes_ns(&self) -> u64 {
        self.balance.most_ns()
    }

    /// A visit with what was not read again of a thread that has waited ever since. What it ran between the last pass and
    /// the reading of its stack is in a visit after it has run again.
    pub(super) fn completed(&self, visit: ThreadVisit) -> ThreadVisit {
        if visit.is_unchanged == 0 || !self.is(&visit) {
            return visit;
        }
        ThreadVisit {
            run_ns: self.visit.run_ns,
            run_delay_ns: self.visit.run_delay_ns,
            thread_pointer: self.visit.thread_pointer,
            ..visit
        }
    }

    /// Takes over what a visit at this time says of its traced waits, if they are traced.
    pub(super) fn note_traced(&mut self, visit: &ThreadVisit, now_ns: u64) {
        let mut present_ns = 0;
        self.is_short = false;
        if visit.left_ns != 0 {
            let wait_ns = now_ns.saturating_sub(visit.left_ns);
            self.is_short = wait_ns < SHORT_WAIT_NS;
            present_ns = wait_ns.min(SHORT_WAIT_NS);
        }
        self.short_ns = visit.short_ns.saturating_add(present_ns);
        if self.pass == 0 {
            // What was before is in no sample.
            self.sampled_short_ns = self.short_ns;
        }
        if self.is_short {
            // It has the stack of an earlier wait.
            self.reset();
        }
    }

    /// Puts off the sample of this time, if its stack was not read in this pass.
    pub(super) fn owes(&mut self, elapsed_ns: u64) -> bool {
        let is_put_off = mem::take(&mut self.is_put_off) && matches!(self.shown, Shown::Waiting(_));
        if is_put_off {
            self.owed_ns = self.owed_ns.saturating_add(elapsed_ns);
        }
        is_put_off
    }

    /// The time that was put off, which is in a sample from now on.
    pub(super) fn take_owed(&mut self) -> u64 {
        mem::take(&mut self.owed_ns)
    }

    /// Adds the sample of the time that was put off, if there is some, of which nothing more becomes known.
    pub(super) fn give_up_time(&mut self, time_ns: u64, batch: &mut Batch, status: &PassStatus) {
        let owed_ns = self.take_owed();
        if owed_ns != 0 {
            let sample = self.sample_of(&Wait::UNPROVED, time_ns, owed_ns);
            batch.samples.push(sample);
            status.add_unproved();
        }
    }

    /// Forgets its stack, of which nothing is known any more.
    pub(super) fn reset(&mut self) {
        self.stack = None;
        self.reason = WaitReason::NONE;
        self.gil = None;
        self.lock = 0;
        self.lock_wait = None;
    }

    /// Takes over a stack that was proved. One that is incomplete is read again after a while, although the
    /// thread did not run: unwind tables, mappings, interpreters and thread states become known later.
    pub(super) fn set_stack(&mut self, stack: Walked, is_whole: bool, now_ns: u64) {
        self.stack = Some(stack);
        if is_whole {
            (self.again_ns, self.backoff_ns) = (0, 0);
        } else {
            let doubled = self.backoff_ns.saturating_mul(2);
            self.backoff_ns = doubled.clamp(MIN_BACKOFF_NS, MAX_BACKOFF_NS);
            self.again_ns = now_ns.saturating_add(self.backoff_ns);
        }
    }

    /// Has its stack read again after this time, although the thread did not run.
    pub(super) fn read_again_after(&mut self, time: Duration, now_ns: u64) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        (self.again_ns, self.backoff_ns) = (now_ns.saturating_add(time_ns), 0);
    }

    /// Takes over a visit: what a sample of the elapsed time shows. Of a thread of which only this moment counts,
    /// earlier waits are none.
    pub(super) fn show(&mut self, visit: &ThreadVisit, elapsed_ns: u64, is_moment: bool) {
        let is_in_call = self.reason != WaitReason::NONE && self.reason != WaitReason::RUNNABLE;
        let has_stack = self.stack.is_some();
        self.shown = match self.update(visit, elapsed_ns, is_in_call, is_moment) {
            // Its stack was read while the pass had its processor: of one that is shown to run for what it did before,
            // that of a wait may be known.
            Activity::Running if has_stack && (is_moment || visit.preempted != 0) => {
                Shown::Waiting(WaitReason::NONE)
            }
            Activity::Running => Shown::Elsewhere { is_runnable: false },
            Activity::Short => Shown::Traced { is_runnable: false },
            Activity::Runnable if visit.is_traced != 0 => Shown::Traced { is_runnable: true },
            Activity::Runnable if !has_stack => Shown::Elsewhere { is_runnable: true },
            Activity::Runnable => Shown::Waiting(WaitReason::RUNNABLE),
            Activity::Waiting if self.is_shown_stopped(visit, is_moment) => {
                Shown::Waiting(WaitReason::STOPPED)
            }
            Activity::Waiting | Activity::Woken if is_in_call => Shown::Waiting(self.reason),
            // Of a process that could not be read nothing is known.
            Activity::Waiting | Activity::Woken => Shown::Waiting(WaitReason::OTHER),
            Activity::Earlier => Shown::Earlier,
        };
        if let Shown::Waiting(reason) = self.shown
            // One that passes see run too often has waited meanwhile for what its program waits for.
            && !matches!(
                reason,
                WaitReason::NONE | WaitReason::RUNNABLE | WaitReason::STOPPED
            )
            && self.stack.is_some()
            && !is_moment
        {
            self.last_wait = Some(self.wait(reason));
        }
    }

    /// Whether a sample shows that it is stopped, not what it waits for besides. A snapshot shows the wait that was
    /// interrupted, where that is known, and that the process is stopped.
    fn is_shown_stopped(&self, visit: &ThreadVisit, is_moment: bool) -> bool {
        let is_unknown = matches!(self.reason, WaitReason::NONE | WaitReason::OTHER);
        is_stopped(visit.state) && (is_unknown || !is_moment)
    }

    /// The present wait.
    fn wait(&self, reason: WaitReason) -> Wait {
        Wait {
            stack: self.stack.unwrap_or(Walked::UNPROVED),
            reason,
            gil: self.gil,
            lock: self.lock,
            switches: self.lock_wait.map_or(0, |wait| wait.switches),
        }
    }

    /// The wait that its sample shows.
    pub(super) fn shown_wait(&self) -> Option<Wait> {
        match self.shown {
            Shown::Elsewhere { .. } | Shown::Traced { .. } => None,
            Shown::Waiting(reason) => Some(self.wait(reason)),
            Shown::Earlier => self.last_wait,
        }
    }

    /// What a thread waits for that holds the GIL meanwhile.
    pub(super) fn waits_with_gil(&self) -> Option<WaitReason> {
        match self.shown {
            Shown::Waiting(reason) if self.stack.is_some_and(|stack| stack.holds_gil) => {
                Some(reason)
            }
            _ => None,
        }
    }

    /// `is_in_call`: the thread is in a system call that waits.
    fn update(
        &mut self,
        visit: &ThreadVisit,
        elapsed_ns: u64,
        is_in_call: bool,
        is_moment: bool,
    ) -> Activity {
        let elapsed_ns = i64::try_from(elapsed_ns).unwrap_or(i64::MAX);
        let since = |now: u64, before: u64| i64::try_from(now.saturating_sub(before)).unwrap_or(0);
        let seen = if visit.on_cpu != 0 || visit.preempted != 0 {
            Activity::Running
        } else if visit.state == 0 && !is_in_call {
            Activity::Runnable
        } else if visit.state == 0 && !is_moment {
            Activity::Woken
        } else if self.is_short {
            Activity::Short
        } else {
            Activity::Waiting
        };
        let is_current = visit.switches != self.visit.switches;
        let balance = &mut self.balance;
        let (ran, delayed) = (
            since(visit.run_ns, self.visit.run_ns),
            since(visit.run_delay_ns, self.visit.run_delay_ns),
        );
        balance.run_ns = balance.run_ns.saturating_add(ran);
        balance.delay_ns = balance.delay_ns.saturating_add(delayed);
        let short = self.short_ns.cast_signed();
        let short = short.saturating_sub(self.sampled_short_ns.cast_signed());
        balance.short_ns = balance.short_ns.saturating_add(short);
        self.sampled_short_ns = self.short_ns;
        balance.limit(elapsed_ns);
        self.visit = *visit;
        balance.pay(elapsed_ns, seen, is_current, self.last_wait.is_some())
    }

    /// A sample of the elapsed time.
    pub(super) fn sample(&self, time_ns: u64, elapsed_ns: u64, wait: WaitReason) -> Sample {
        self.sample_of(&self.wait(wait), time_ns, elapsed_ns)
    }

    /// The same of one of its waits.
    pub(super) fn sample_of(&self, wait: &Wait, time_ns: u64, elapsed_ns: u64) -> Sample {
        Sample {
            time_ns,
            value: elapsed_ns,
            ..wait
                .stack
                .sample(self.visit.tgid, self.visit.tid, wait.reason)
        }
    }
}

/// Age of a thread up to which it is new: it has few samples of CPU time, and those are of what it does later.
const NEW_NS: u64 = 200_000_000;

/// Times after which a stack that is incomplete is read again.
const MIN_BACKOFF_NS: u64 = 100_000_000;
const MAX_BACKOFF_NS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests;
