//! A profile: tables, and samples that refer to them by index.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use super::{
    amount::{Amount, ValueSource},
    executable::Executable,
    indices::{
        ExecutableId, FunctionId, LocationId, ProcessIndex, StackId, TaskIndex, ThreadIndex,
    },
    kind::Kind,
    location::{Function, Location},
    losses::{FilteredOut, Losses},
    process::Process,
    timeline::{TimedSample, Timeline},
    type_names::SampleType,
    unwind_stats::UnwindStats,
};

/// From which part on the values differ from samples of the period: the rate has changed. Samples whose rate is the same
/// are not of exactly one period each.
const IRREGULAR_PART: u128 = 20;

/// Samples of one or more processes over a period of time.
#[derive(Clone, Debug)]
pub struct Profile {
    /// When sampling began.
    pub start: SystemTime,
    /// For how long samples were taken.
    pub duration: Duration,
    /// What it measures.
    pub kind: &'static Kind,
    /// Distance of two samples, in the unit of the kind; the last one if it changed meanwhile.
    pub period: u64,
    /// Labels of the series that the profile belongs to, see [`labels`](crate::targets::labels);
    /// empty for a capture.
    pub labels: BTreeMap<String, String>,
    /// Processes that were sampled; [`ProcessIndex`] is an index. Without samples, the first
    /// profiled process, if it is known.
    pub processes: Vec<Process>,
    /// Executables of native and kernel frames; [`ExecutableId`] is an index.
    pub executables: Vec<Executable>,
    /// Functions; [`FunctionId`] is an index.
    pub functions: Vec<Function>,
    /// Locations of frames; [`LocationId`] is an index.
    pub locations: Vec<Location>,
    /// Distinct stacks; [`StackId`] is an index.
    pub stacks: Vec<Stack>,
    /// Threads; [`ThreadIndex`] is an index.
    pub threads: Vec<Thread>,
    /// Names of tasks of asyncio; [`TaskIndex`] is an index.
    pub tasks: Vec<String>,
    /// Samples per stack, thread and task; at most one entry for the three.
    pub samples: Vec<Sample>,
    /// When they were taken, if that was recorded.
    pub timeline: Option<Timeline>,
    /// Statistics of native unwinding; at most one entry for a process, none for a process of which
    /// no native stack was unwound.
    pub unwind_stats: Vec<UnwindStats>,
    /// What was lost, truncated or not symbolized.
    pub losses: Losses,
    /// Samples excluded by a filter.
    pub filtered_out: FilteredOut,
}

/// A stack, leaf first.
pub type Stack = Box<[LocationId]>;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Its process.
    pub process: ProcessIndex,
    /// Its id in the agent's PID namespace; 0 stands for all threads of its process together.
    pub tid: u32,
    /// `threading.Thread.name` where it is known, else the kernel's name of the thread (`comm`).
    pub name: String,
}

/// What samples are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sampled {
    /// The thread that was sampled.
    pub thread: ThreadIndex,
    /// Its stack.
    pub stack: StackId,
    /// The task of asyncio that it ran, if it ran one and that is known.
    pub task: Option<TaskIndex>,
}

/// Samples of a stack in a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The stack that was sampled.
    pub stack: StackId,
    /// The thread that was sampled.
    pub thread: ThreadIndex,
    /// The task of asyncio that it ran, if it ran one and that is known.
    pub task: Option<TaskIndex>,
    /// Number of samples.
    pub count: u64,
    /// What they measured, in the unit of the profile's kind.
    pub value: u64,
}

impl Sample {
    /// Samples that measured so much.
    #[must_use]
    pub fn new(of: Sampled, amount: Amount) -> Self {
        Self {
            stack: of.stack,
            thread: of.thread,
            task: of.task,
            count: amount.count,
            value: amount.value,
        }
    }

    /// What they are counted by.
    #[must_use]
    pub fn sampled(&self) -> Sampled {
        Sampled {
            thread: self.thread,
            stack: self.stack,
            task: self.task,
        }
    }

    /// Number and value.
    #[must_use]
    pub fn amount(&self) -> Amount {
        Amount {
            count: self.count,
            value: self.value,
        }
    }
}

impl Profile {
    /// The process of a sample.
    ///
    /// # Panics
    ///
    /// When `sample` does not belong to this profile.
    #[must_use]
    pub fn process_of(&self, sample: &Sample) -> ProcessIndex {
        self.threads[sample.thread.0 as usize].process
    }

    /// The name of the task of asyncio that the thread of a sample ran.
    #[must_use]
    pub fn task_of(&self, sample: &Sample) -> Option<&str> {
        let TaskIndex(task) = sample.task?;
        self.tasks.get(task as usize).map(String::as_str)
    }

    /// The location with an index.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn location(&self, id: LocationId) -> &Location {
        &self.locations[id.0 as usize]
    }

    /// The function with an index.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// The executable with an index.
    ///
    /// # Panics
    ///
    /// When `id` is not an index of this profile.
    #[must_use]
    pub fn executable(&self, id: ExecutableId) -> &Executable {
        &self.executables[id.0 as usize]
    }

    /// How far samples are apart, in what the period of this type counts.
    #[must_use]
    pub fn period_as(&self, of: &SampleType) -> u64 {
        let one_sample = Amount {
            count: 1,
            value: self.period,
        };
        one_sample.get(of.source)
    }

    /// The samples in the order of time; none without a [timeline](Self::timeline).
    #[must_use]
    pub fn timed_samples(&self) -> &[TimedSample] {
        self.timeline.as_ref().map_or(&[], Timeline::samples)
    }

    /// Number of all samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).sum()
    }

    /// Sum of the values of all samples.
    #[must_use]
    pub fn total_value(&self) -> u64 {
        let values = self.samples.iter().map(|sample| sample.value);
        values.fold(0, u64::saturating_add)
    }

    /// The numbers of folded stacks and flame graphs, in the order of the samples. Where the rate has changed,
    /// samples that are counted are shared out by their values: a time with fewer of them counts as much as another.
    #[must_use]
    pub fn plotted(&self) -> Vec<u64> {
        let amounts = self.samples.iter().map(Sample::amount);
        let (count, value) = (u128::from(self.total()), u128::from(self.total_value()));
        let expected = count * u128::from(self.period);
        let is_regular = value.abs_diff(expected) <= expected / IRREGULAR_PART;
        if self.kind.plotted == ValueSource::Value || is_regular || value == 0 {
            return amounts
                .map(|amount| amount.get(self.kind.plotted))
                .collect();
        }
        let (mut passed, mut given) = (0_u128, 0);
        let shared = amounts.map(|amount| {
            passed += u128::from(amount.value);
            let up_to = passed.saturating_mul(count) / value;
            let part = up_to - given;
            given = up_to;
            u64::try_from(part).unwrap_or(u64::MAX)
        });
        shared.collect()
    }

    /// Values divided by the period, in the order of the samples: what the samples would count if the
    /// period had been the same all the time. The remainder of each is carried to the next one, so
    /// that less than one period is lost in all.
    pub fn periods(&self) -> impl Iterator<Item = u64> {
        let period = self.period.max(1);
        let mut remainder = 0;
        self.samples.iter().map(move |sample| {
            let value = sample.value.saturating_add(remainder);
            remainder = value % period;
            value / period
        })
    }
}
