//! What is remembered of a thread from pass to pass.

use agent_common::{
    record::{Header, ProfileKind, RecordKind, Sample, WaitReason},
    visit::ThreadVisit,
};

use super::walker::Walked;

/// A thread that was visited.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownThread {
    /// What was last recorded of it.
    pub(super) visit: ThreadVisit,
    /// Its stack, while it is proved: since then the thread did not run.
    pub(super) stack: Option<Walked>,
    /// Why it waits.
    pub(super) reason: WaitReason,
    /// Nanoseconds that it waited for a processor and that no sample stands for yet.
    pub(super) unpaid_delay_ns: u64,
    /// When its name was last read, in nanoseconds of the monotonic clock; 0 for never.
    pub(super) named_ns: u64,
    /// The last pass that visited it.
    pub(super) pass: u64,
}

/// What a thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It ran, or would have if the agent had not taken its processor.
    Running,
    /// It could run, and waited for a processor.
    Runnable,
    /// It waited for something else.
    Waiting,
}

impl KnownThread {
    pub(super) fn new(visit: ThreadVisit) -> Self {
        Self {
            visit,
            stack: None,
            reason: WaitReason::NONE,
            unpaid_delay_ns: 0,
            named_ns: 0,
            pass: 0,
        }
    }

    /// Whether this is a visit of the same thread.
    pub(super) fn is(&self, visit: &ThreadVisit) -> bool {
        self.visit.start_time_ns == visit.start_time_ns && self.visit.tgid == visit.tgid
    }

    /// Takes over a visit: what the thread was doing. `is_in_call`: it is in a system call that waits.
    ///
    /// Of the visits that find it active, so many are of a thread that waits for a processor as the
    /// kernel's account of that time says: the pass itself takes processors from threads, and would see
    /// those wait.
    pub(super) fn update(
        &mut self,
        visit: &ThreadVisit,
        elapsed_ns: u64,
        is_in_call: bool,
    ) -> Activity {
        let delay = visit.run_delay_ns.saturating_sub(self.visit.run_delay_ns);
        let most = elapsed_ns.saturating_mul(MAX_UNPAID);
        self.unpaid_delay_ns = self.unpaid_delay_ns.saturating_add(delay).min(most);
        self.visit = *visit;
        if visit.on_cpu == 0 && (visit.state != 0 || is_in_call) {
            if visit.state == 0 {
                // It was woken already: its wait pays for that.
                self.unpaid_delay_ns = self.unpaid_delay_ns.saturating_sub(elapsed_ns);
            }
            return Activity::Waiting;
        }
        if self.unpaid_delay_ns >= elapsed_ns {
            self.unpaid_delay_ns -= elapsed_ns;
            return Activity::Runnable;
        }
        Activity::Running
    }

    /// A sample of the elapsed time.
    pub(super) fn sample(&self, time_ns: u64, elapsed_ns: u64, wait: WaitReason) -> Sample {
        let stack = self.stack.unwrap_or(Walked::UNPROVED);
        Sample {
            header: Header {
                kind: RecordKind::SAMPLE,
                reserved: 0,
                bytes: u32::try_from(size_of::<Sample>()).unwrap_or(0),
            },
            time_ns,
            stack: stack.stack,
            native_stack: stack.native_stack,
            tgid: self.visit.tgid,
            tid: self.visit.tid,
            value: elapsed_ns,
            count: 1,
            kind: ProfileKind::WALL,
            python_status: stack.python_status,
            holds_gil: stack.holds_gil.into(),
            native_status: stack.native_status,
            wait,
            reserved: 0,
        }
    }
}

/// Most periods that a thread is remembered to have waited for a processor.
const MAX_UNPAID: u64 = 100;
