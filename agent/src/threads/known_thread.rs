//! What is kept about a thread from pass to pass.

use std::time::Duration;

use agent_common::{
    limits::SHORT_WAIT_NS,
    maps::LockWait,
    record::{Sample, WaitReason},
    visit::ThreadVisit,
};

use super::{
    balance::{Activity, Balance},
    gil::GilWait,
    walker::Walked,
};

/// A thread that was visited.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownThread {
    /// What was last recorded of it.
    pub(super) visit: ThreadVisit,
    /// Its stack, while it is proved: since then the thread did not run.
    pub(super) stack: Option<Walked>,
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
    /// It has its stack, and waited for this.
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

impl KnownThread {
    pub(super) fn new(visit: ThreadVisit) -> Self {
        Self {
            visit,
            stack: None,
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
            Activity::Running => Shown::Elsewhere { is_runnable: false },
            Activity::Short => Shown::Traced { is_runnable: false },
            Activity::Runnable if visit.is_traced != 0 => Shown::Traced { is_runnable: true },
            Activity::Runnable if !has_stack => Shown::Elsewhere { is_runnable: true },
            Activity::Runnable => Shown::Waiting(WaitReason::RUNNABLE),
            Activity::Waiting | Activity::Woken if is_in_call => Shown::Waiting(self.reason),
            // Of a process that could not be read nothing is known.
            Activity::Waiting | Activity::Woken => Shown::Waiting(WaitReason::OTHER),
            Activity::Earlier => Shown::Earlier,
        };
        if let Shown::Waiting(reason) = self.shown
            && reason != WaitReason::RUNNABLE
            && self.stack.is_some()
            && !is_moment
        {
            self.last_wait = Some(self.wait(reason));
        }
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

/// Times after which a stack that is incomplete is read again.
const MIN_BACKOFF_NS: u64 = 1_000_000_000;
const MAX_BACKOFF_NS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::balance::MAX_SAMPLES;

    const ELAPSED: u64 = 10;

    fn visit(run_ns: u64, run_delay_ns: u64, state: u32) -> ThreadVisit {
        ThreadVisit {
            bytes: 0,
            tgid: 1,
            tid: 2,
            state,
            on_cpu: 0,
            preempted: 0,
            start_time_ns: 3,
            switches: 4,
            run_ns,
            run_delay_ns,
            thread_pointer: 0,
            short_ns: 0,
            left_ns: 0,
            is_traced: 0,
            reserved: 0,
        }
    }

    /// What the samples of a thread show of which the kernel accounts for so much time per pass.
    fn shares(run_ns: u64, delay_ns: u64, state: u32) -> [usize; 3] {
        let mut thread = KnownThread::new(visit(0, 0, state));
        let mut counts = [0; 3];
        for pass in 1..=100 {
            let visit = visit(pass * run_ns, pass * delay_ns, state);
            let shown = match thread.update(&visit, ELAPSED, false, false) {
                Activity::Running => 0,
                Activity::Runnable => 1,
                _ => 2,
            };
            counts[shown] += 1;
        }
        counts
    }

    #[test]
    fn the_kernel_says_how_long_a_thread_ran_and_waited_for_a_processor() {
        // Seen active each time.
        assert_eq!(shares(10, 0, 0), [100, 0, 0]);
        assert_eq!(shares(5, 5, 0), [50, 50, 0]);
        assert_eq!(shares(8, 2, 0), [80, 20, 0]);
        // Never seen active.
        assert_eq!(shares(0, 0, 1), [0, 0, 100]);
        assert_eq!(shares(2, 0, 1), [20, 0, 80]);
        // What is owed at the end is not shown yet.
        assert_eq!(shares(1, 3, 1), [10, 29, 61]);
    }

    #[test]
    fn a_thread_that_starves_is_runnable_also_where_the_kernel_does_not_say_so() {
        assert_eq!(shares(5, 0, 0), [50, 50, 0]);
        assert_eq!(shares(0, 0, 0), [0, 100, 0]);
    }

    /// What 1000 samples show of a thread that passes see in this state each time but the fifth, when it waits.
    fn shown(
        ran_ns: u64,
        delayed_ns: u64,
        is_moment: bool,
        is_seen: impl Fn(&mut ThreadVisit),
    ) -> [usize; 4] {
        const PERIOD: u64 = 20_000_000;
        let mut thread = KnownThread::new(visit(0, 0, 1));
        let mut counts = [0; 4];
        for pass in 1..=1000 {
            let mut visit = visit(pass * ran_ns, pass * delayed_ns, 1);
            visit.switches = pass;
            thread.reset();
            if pass % 5 == 0 {
                thread.reason = WaitReason::SLEEP;
                thread.stack = Some(Walked::UNPROVED);
            } else {
                is_seen(&mut visit);
            }
            thread.show(&visit, PERIOD, is_moment);
            counts[match thread.shown {
                Shown::Elsewhere { is_runnable: false } => 0,
                Shown::Elsewhere { is_runnable: true } => 1,
                Shown::Waiting(_) => 2,
                Shown::Traced { .. } => unreachable!(),
                Shown::Earlier => {
                    let reason = thread.shown_wait().unwrap().reason;
                    assert_eq!(reason, WaitReason::SLEEP);
                    3
                }
            }] += 1;
        }
        counts
    }

    #[test]
    fn a_thread_that_is_seen_active_too_often_has_waited() {
        let runs = |visit: &mut ThreadVisit| visit.on_cpu = 1;
        let is_runnable = |visit: &mut ThreadVisit| visit.state = 0;
        // Half of the time, by the accounts.
        for (shown, active) in [
            (shown(10_000_000, 0, false, runs), 0),
            (shown(0, 10_000_000, false, is_runnable), 1),
        ] {
            assert!((500..=502).contains(&shown[active]), "{shown:?}");
            assert_eq!(shown[2], 200, "{shown:?}");
        }
        // One that was preempted by the pass ran.
        let was_preempted = |visit: &mut ThreadVisit| (visit.state, visit.preempted) = (0, 1);
        let shown_as = shown(16_000_000, 0, false, was_preempted);
        assert_eq!(shown_as, [800, 0, 200, 0]);
        // Only this moment counts.
        assert_eq!(shown(10_000_000, 0, true, runs)[3], 0);
    }

    #[test]
    fn a_stack_that_is_not_whole_is_read_again_ever_more_seldom() {
        let mut thread = KnownThread::new(visit(0, 0, 1));
        let mut times = Vec::new();
        for _ in 0..9 {
            thread.set_stack(Walked::UNPROVED, false, 0);
            times.push(thread.again_ns / MIN_BACKOFF_NS);
        }
        assert_eq!(times, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        thread.set_stack(Walked::UNPROVED, true, 0);
        assert_eq!(thread.again_ns, 0);
    }

    #[test]
    fn a_thread_that_was_woken_is_in_its_wait_unless_the_kernel_says_that_it_waits_for_a_processor()
    {
        const PERIOD: u64 = 10_000_000;
        let shown = |delay_ns: u64, is_moment| {
            let mut thread = KnownThread::new(visit(0, 0, 0));
            let activities = (1..=100).map(|pass| {
                let visit = visit(0, pass * delay_ns, 0);
                thread.update(&visit, PERIOD, true, is_moment)
            });
            let is_runnable = |activity: &Activity| *activity == Activity::Runnable;
            activities.filter(is_runnable).count()
        };
        assert_eq!(shown(0, false), 1);
        assert_eq!(shown(PERIOD / 2, false), 51);
        assert_eq!(shown(PERIOD, false), 100);
        assert_eq!(shown(0, true), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut thread = KnownThread::new(visit(0, 0, 1));
        thread.update(&visit(1 << 60, 1 << 60, 1), ELAPSED, false, false);
        let most = MAX_SAMPLES * i64::try_from(ELAPSED).unwrap();
        assert!(thread.balance.run_ns <= most && thread.balance.delay_ns <= most);
    }
}
