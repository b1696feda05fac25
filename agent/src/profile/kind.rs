//! What distinguishes the kinds of profiles.

use agent_common::record::{ProfileKind, WaitReason};

use super::{
    amount::ValueSource,
    type_names::{SampleType, TypeNames, TypeNaming},
};

/// A kind of profile.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its number, and that of its samples in the records of the BPF programs if they are its own.
    pub number: ProfileKind,
    /// Its name in options, messages and names of files.
    pub name: &'static str,
    /// Unit of the values of its samples.
    pub unit: Unit,
    /// How its samples are taken.
    pub source: Source,
    /// How far samples are apart.
    pub period: Period,
    /// Its names in pprof files, and in collectors that have no others.
    pub names: TypeNames,
    /// Its names in Parca, where these are others.
    pub parca_names: Option<TypeNames>,
    /// Its names in OTLP, where these are others.
    pub otlp_names: Option<TypeNames>,
    /// Which of the [sample types](TypeNames::sample_types) is shown by default.
    pub default_type: usize,
    /// Which of the sample types OTLP has, where a profile has only one.
    pub otlp_type: usize,
    /// The number that folded stacks and flame graphs have.
    pub plotted: ValueSource,
    /// Words of the summary.
    pub words: Words,
}

/// How the samples of a kind are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By an event of the kernel, which runs a BPF program of the kind.
    Event,
    /// By probes in the profiled programs, which run a BPF program of the kind.
    Probe(Probed),
    /// By the events and programs of [`growth`](super::kinds::growth), whose pages are looked at again.
    Pages(PagesOf),
    /// By passes over all threads of the profiled processes, whatever these do.
    Passes(PassSamples),
}

/// Where probes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probed {
    /// In interpreters, where an exception leaves a frame.
    Exceptions,
    /// In allocators, where a thread asks for memory.
    Allocations,
}

/// Which of the pages by which processes have grown a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagesOf {
    /// Those that are resident when sampling ends.
    End,
    /// Those that were resident when most of them were.
    Peak,
}

/// Which samples of a pass a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassSamples {
    /// Those of all threads.
    All,
    /// Those of threads that did not run.
    NotRunning,
    /// Those of threads that could run and waited for a CPU.
    Runnable,
    /// Those of threads that held the GIL.
    HoldingGil,
    /// Those of threads that waited for the GIL, each with the stack of the one that held it.
    BlockedByGil,
    /// Those of threads that waited for a lock, each with that lock.
    WaitingForLock,
    /// Those of threads that waited for a lock, each with the stack of the one that released it.
    ReleasingLock,
    /// Those of tasks of asyncio, not of threads.
    Tasks,
}

/// Unit of the values of a kind's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Events.
    Events,
    /// Bytes.
    Bytes,
}

/// How far the samples of a kind are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// As the sampling rate says, in nanoseconds.
    Rate,
    /// So many events.
    Events(u64),
    /// So many bytes.
    Bytes(u64),
}

/// Words of the summary.
#[derive(Debug, PartialEq, Eq)]
pub struct Words {
    /// What follows the total, such as `of CPU` in `1.50 s of CPU`.
    pub total: &'static str,
    /// What a process or a thread did that has samples, such as `used any CPU`.
    pub any: &'static str,
    /// What one did that has none, such as `used no CPU`.
    pub none: &'static str,
}

impl Kind {
    /// A kind with the same names everywhere, whose values are shown, not its samples. `series` and `type_name` are
    /// its names in collectors.
    #[must_use]
    pub const fn of_values(
        number: ProfileKind,
        name: &'static str,
        (series, type_name): (&'static str, &'static str),
        unit: Unit,
        (source, period): (Source, Period),
        words: Words,
    ) -> Self {
        Self {
            number,
            name,
            unit,
            source,
            period,
            names: TypeNames {
                series,
                sample_types: [
                    SampleType::SAMPLES,
                    SampleType::value(type_name, unit.name()),
                ],
                period_type: SampleType::value(type_name, unit.name()),
            },
            parca_names: None,
            otlp_names: None,
            default_type: 1,
            otlp_type: 1,
            plotted: ValueSource::Value,
            words,
        }
    }

    /// A kind that counts events of the kernel: every `period`-th is a sample. `type_name` is its name
    /// in collectors.
    #[must_use]
    pub const fn of_events(
        number: ProfileKind,
        name: &'static str,
        type_name: &'static str,
        period: u64,
        words: Words,
    ) -> Self {
        let how = (Source::Event, Period::Events(period));
        Self::of_values(
            number,
            name,
            (type_name, type_name),
            Unit::Events,
            how,
            words,
        )
    }

    /// A kind of nanoseconds that passes over the threads sample. `series` and `type_name` are its names
    /// in collectors.
    #[must_use]
    pub const fn of_passes(
        number: ProfileKind,
        name: &'static str,
        (series, type_name): (&'static str, &'static str),
        samples: PassSamples,
        words: Words,
    ) -> Self {
        let how = (Source::Passes(samples), Period::Rate);
        Self::of_values(
            number,
            name,
            (series, type_name),
            Unit::Nanoseconds,
            how,
            words,
        )
    }

    /// The same with the names of one of Go's profiles of waits, `series`.
    #[must_use]
    pub const fn of_waits(
        number: ProfileKind,
        name: &'static str,
        series: &'static str,
        samples: PassSamples,
        words: Words,
    ) -> Self {
        let mut kind = Self::of_passes(number, name, (series, "delay"), samples, words);
        kind.names.period_type = SampleType {
            name: "contentions",
            ..SampleType::SAMPLES
        };
        kind
    }

    /// Its names in an output.
    #[must_use]
    pub fn names_in(&self, naming: TypeNaming) -> &TypeNames {
        let own = match naming {
            TypeNaming::Pprof => None,
            TypeNaming::Parca => self.parca_names.as_ref(),
            TypeNaming::Otlp => self.otlp_names.as_ref(),
        };
        own.unwrap_or(&self.names)
    }

    /// Whether its names in pprof files are those of Go's profiles of waits, which collectors recognize: they do not tell
    /// kinds apart, and their [type of periods](TypeNames::period_type) has no number for the time between samples.
    #[must_use]
    pub fn is_named_as_in_go(&self) -> bool {
        self.period == Period::Rate && self.names.period_type.source == ValueSource::Count
    }

    /// Whether it has other names in an output than in pprof files.
    #[must_use]
    pub fn has_names_of(&self, naming: TypeNaming) -> bool {
        *self.names_in(naming) != self.names
    }

    /// Whether its samples are taken by passes, so that each has the state of its thread.
    #[must_use]
    pub fn is_of_passes(&self) -> bool {
        matches!(self.source, Source::Passes(_))
    }

    /// Which pages by which processes have grown it has; [`None`] where it has no pages.
    #[must_use]
    pub fn pages(&self) -> Option<PagesOf> {
        match self.source {
            Source::Pages(pages) => Some(pages),
            _ => None,
        }
    }

    /// What samples count, as one and as many.
    #[must_use]
    pub fn counted(&self) -> (&'static str, &'static str) {
        if self.is_about_allocations() {
            ("allocation", "allocations")
        } else {
            ("sample", "samples")
        }
    }

    /// What its samples are of, where only some processes can have them, and others say why they have none.
    #[must_use]
    pub fn found_in_some(&self) -> Option<&'static str> {
        match self.source {
            Source::Probe(Probed::Exceptions) => Some("exceptions"),
            Source::Probe(Probed::Allocations) => Some("allocations"),
            Source::Passes(PassSamples::Tasks) => Some("tasks"),
            _ => None,
        }
    }

    /// A sentence about what its values are not, where that needs one; `has_pools` says whether there is a CPython that
    /// divides its memory among small objects.
    #[must_use]
    pub fn limits(&self, has_pools: bool) -> Option<&'static str> {
        const PAGES: &str = "What was in memory before is left out; what an allocator uses again without giving it back \
             is of whoever touched it first.";
        const ALLOCATIONS: &str = "Objects of up to 512 bytes are in memory that CPython maps for many of them: it is of \
             whoever asked for the first one.";
        match self.source {
            Source::Pages(_) => Some(PAGES),
            Source::Probe(Probed::Allocations) if has_pools => Some(ALLOCATIONS),
            _ => None,
        }
    }

    /// Whether its samples are taken by a probe in the profiled programs.
    #[must_use]
    pub fn is_of_probe(&self) -> bool {
        matches!(self.source, Source::Probe(_))
    }

    /// Whether its samples are exceptions.
    #[must_use]
    pub fn is_about_exceptions(&self) -> bool {
        self.source == Source::Probe(Probed::Exceptions)
    }

    /// Whether its samples are allocations.
    #[must_use]
    pub fn is_about_allocations(&self) -> bool {
        self.source == Source::Probe(Probed::Allocations)
    }

    /// Whether its values are memory.
    #[must_use]
    pub fn is_about_memory(&self) -> bool {
        self.unit == Unit::Bytes
    }

    /// The kind that its samples have in the records of the BPF programs.
    #[must_use]
    pub fn recorded_as(&self) -> ProfileKind {
        match self.source {
            Source::Event
            | Source::Probe(_)
            | Source::Pages(_)
            | Source::Passes(
                PassSamples::HoldingGil
                | PassSamples::BlockedByGil
                | PassSamples::WaitingForLock
                | PassSamples::ReleasingLock
                | PassSamples::Tasks,
            ) => self.number,
            Source::Passes(_) => ProfileKind::WALL,
        }
    }

    /// Whether values are time of the sampled thread itself, so that its samples follow one another.
    #[must_use]
    pub fn is_time_of_thread(&self) -> bool {
        let of_others = [
            PassSamples::BlockedByGil,
            PassSamples::ReleasingLock,
            PassSamples::Tasks,
        ];
        let is_of_others = of_others
            .iter()
            .any(|of| self.source == Source::Passes(*of));
        self.unit == Unit::Nanoseconds && !is_of_others
    }

    /// Whether its samples may be of threads that wait for work: not those of threads that run, could run, or hold the
    /// GIL.
    #[must_use]
    pub fn has_idle_threads(&self) -> bool {
        let is_runnable = self.source == Source::Passes(PassSamples::Runnable);
        self.is_of_passes() && !self.is_about_gil() && !is_runnable
    }

    /// Whether passes have to look at who holds the GIL.
    #[must_use]
    pub fn is_about_gil(&self) -> bool {
        let of_gil = [PassSamples::HoldingGil, PassSamples::BlockedByGil];
        of_gil.iter().any(|of| self.source == Source::Passes(*of))
    }

    /// Whether it is the time in which threads hold the GIL.
    #[must_use]
    pub fn is_time_with_gil(&self) -> bool {
        self.source == Source::Passes(PassSamples::HoldingGil)
    }

    /// Whether passes have to look at which locks threads wait for.
    #[must_use]
    pub fn is_about_locks(&self) -> bool {
        self.source == Source::Passes(PassSamples::WaitingForLock) || self.is_about_releases()
    }

    /// Whether passes have to read the stacks of threads.
    #[must_use]
    pub fn needs_stacks_of_passes(&self) -> bool {
        self.is_of_passes() && !self.is_about_tasks()
    }

    /// Whether passes have to read the tasks of asyncio.
    #[must_use]
    pub fn is_about_tasks(&self) -> bool {
        self.source == Source::Passes(PassSamples::Tasks)
    }

    /// Whether it has to be recorded who ends waits for locks.
    #[must_use]
    pub fn is_about_releases(&self) -> bool {
        self.source == Source::Passes(PassSamples::ReleasingLock)
    }

    /// Whether it has the samples that were recorded as this kind, of threads that waited for this.
    #[must_use]
    pub fn has_samples(&self, recorded: ProfileKind, wait: WaitReason) -> bool {
        let has_wait = match self.source {
            Source::Event
            | Source::Probe(_)
            | Source::Pages(_)
            | Source::Passes(
                PassSamples::All
                | PassSamples::HoldingGil
                | PassSamples::BlockedByGil
                | PassSamples::WaitingForLock
                | PassSamples::ReleasingLock
                | PassSamples::Tasks,
            ) => true,
            Source::Passes(PassSamples::NotRunning) => wait != WaitReason::NONE,
            Source::Passes(PassSamples::Runnable) => wait == WaitReason::RUNNABLE,
        };
        recorded == self.recorded_as() && has_wait
    }
}

impl Unit {
    /// Its name in pprof and OTLP.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "nanoseconds",
            Self::Events => "count",
            Self::Bytes => "bytes",
        }
    }

    /// A value as text, such as `1.50 s`.
    #[must_use]
    pub fn text(self, value: u64) -> String {
        match self {
            Self::Nanoseconds => format!("{:.2} s", seconds(value)),
            Self::Events => value.to_string(),
            Self::Bytes => format!("{:.1} MB", megabytes(value)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "what is shown has one decimal")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is shown has two decimals, and so much time nobody samples"
)]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
