//! The kernel half, seen from the user half: loaded, fed and read here and nowhere else.

mod btf;
mod clocks;
mod code;
mod counters;
mod regions;
mod requirements;

use std::{
    io::{self, ErrorKind::NotFound},
    time::Duration,
};

use agent_common::{
    layout::Layout,
    maps::{Control, TrackedProcess},
};
use aya::{
    Ebpf, EbpfError, EbpfLoader,
    maps::{Array, ArrayOfMaps, HashMap, MapData, MapError, PerCpuArray, RingBuf},
    programs::{PerfEvent, ProgramError, ProgramType, RawTracePoint},
    sys::{BpfHelper, is_helper_supported},
};
use aya_log::EbpfLogger;
use log::Log;
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{Interest, unix::AsyncFd};

use clocks::Clocks;
use code::{CodeMaps, TABLE_MAPS};
pub use code::{LoadedTables, NewTable, TableLoader};
pub use counters::Counters;
pub use requirements::{Requirement, Unmet, check as check_requirements, requirements};

/// The program that the clock runs.
const ENTRY: &str = "on_cpu";

/// The programs that tracepoints run, and those.
const TRACEPOINTS: [(&str, &str); 5] = [
    ("on_fork", "sched_process_fork"),
    ("on_exec", "sched_process_exec"),
    ("on_exit", "sched_process_exit"),
    ("on_free", "sched_process_free"),
    ("on_cpu_hotplug", "cpuhp_exit"),
];

/// Most processes that can be known at the same time.
pub const MAX_PROCESSES: usize = 32_768;

/// The same where there are only a program and its children.
const MAX_PROCESSES_OF_PROGRAM: usize = 4096;

/// Where the interpreter of a process is.
#[derive(Clone, Copy, Debug)]
pub struct Python {
    /// Address of the pointer to the newest interpreter state.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL, if that is to be looked at.
    pub gil_holder: Option<u64>,
    /// What is to be taken from a thread's pointer to get its `pthread_self()`, in bytes.
    pub thread_pointer_distance: u64,
    /// Where the fields of its structures are.
    pub layout: Layout,
}

/// Why the kernel half does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's BTF does not tell what is needed.
    #[error(transparent)]
    Btf(#[from] btf::Error),
    /// The object was refused as a whole.
    #[error("the kernel half could not be loaded: {0}")]
    Load(#[from] EbpfError),
    /// A program was refused.
    #[error(
        "the kernel refused the program `{program}` ({}): please report it with the kernel's \
         version",
        why_refused(refusal)
    )]
    Program {
        /// Its name.
        program: &'static str,
        /// What the kernel said.
        refusal: ProgramError,
    },
    /// The clock of a processor could not be used.
    #[error(
        "the clock of processor {cpu} cannot be used ({}){}",
        chain(refusal),
        paranoia()
    )]
    Clock {
        /// The processor.
        cpu: u32,
        /// What the kernel said.
        refusal: ProgramError,
    },
    /// A map could not be used.
    #[error("the kernel half's map `{map}` could not be used: {source}")]
    Map {
        /// Its name.
        map: &'static str,
        /// What the kernel said.
        source: MapError,
    },
    /// What the kernel half says could not be listened to.
    #[error("the kernel half's log could not be read: {0}")]
    Log(#[from] aya_log::Error),
    /// The object lacks something that this binary was built for.
    #[error(
        "the kernel half has no `{0}`: agent was built from sources that do not belong together"
    )]
    Incomplete(&'static str),
    /// The system did not say which processors there are, or could not be polled.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// The kernel half, loaded.
pub struct Kernel {
    programs: Ebpf,
    records: AsyncFd<RingBuf<MapData>>,
    logger: EbpfLogger<&'static dyn Log>,
    layouts: Vec<Layout>,
    code: CodeMaps,
    tables: TableLoader,
    control: Control,
    clocks: Clocks,
}

/// What the kernel half is to do.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time between two samples.
    pub period: Duration,
    /// What hashes begin from.
    pub hash_seed: u64,
    /// Whether native and kernel frames are wanted.
    pub with_native: bool,
    /// Whether every process is sampled that is not excluded, instead of those that are added.
    pub whole_host: bool,
}

impl Kernel {
    /// Loads the kernel half; nothing is sampled yet.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error`] when the kernel lacks something or refuses a program.
    pub fn load(settings: &Settings) -> Result<Self, Error> {
        let mut kernel_layout = btf::kernel_layout()?;
        if !tells_registers() {
            kernel_layout.registers = REGISTERS_IN_STACK;
        }
        let with_native = u32::from(settings.with_native);
        let whole_host = u32::from(settings.whole_host);
        let mut programs = EbpfLoader::new()
            .map_max_entries("PROCESSES", max_processes(settings))
            .override_global("WHOLE_HOST", &whole_host, true)
            .override_global(aya_log::LEVEL, &log_level(), true)
            .override_global("HASH_SEED", &settings.hash_seed, true)
            .override_global("WITH_NATIVE", &with_native, true)
            .override_global("KERNEL_LAYOUT", &kernel_layout, true)
            .load(aya::include_bytes_aligned!(concat!(
                env!("OUT_DIR"),
                "/agent.bpf.o"
            )))?;
        entry(&mut programs)?.load().map_err(refused(ENTRY))?;
        for (program, tracepoint) in TRACEPOINTS {
            let refused = refused(program);
            let on_event: &mut RawTracePoint = programs
                .program_mut(program)
                .ok_or(Error::Incomplete(program))?
                .try_into()
                .map_err(refused)?;
            on_event.load().map_err(refused)?;
            on_event.attach(tracepoint).map_err(refused)?;
        }
        let tables = programs
            .take_map(TABLE_MAPS)
            .ok_or(Error::Incomplete(TABLE_MAPS))?;
        let tables = ArrayOfMaps::try_from(tables).map_err(map_error(TABLE_MAPS))?;
        let records = programs
            .take_map("RECORDS")
            .ok_or(Error::Incomplete("RECORDS"))?;
        let records = RingBuf::try_from(records).map_err(map_error("RECORDS"))?;
        // SAFETY: the ring buffer owns its descriptor and keeps it open and the same.
        let records = unsafe { AsyncFd::register_with_interest(records, Interest::READABLE) }
            .map_err(|error| Error::System {
                what: "the ring buffer cannot be polled",
                source: error.into(),
            })?;
        let logger = EbpfLogger::init(&mut programs)?;
        let mut kernel = Self {
            programs,
            records,
            logger,
            layouts: Vec::new(),
            code: CodeMaps::default(),
            tables: TableLoader::new(tables),
            control: Control::default(),
            clocks: Clocks::default(),
        };
        kernel.control(|control| control.period_ns = nanoseconds(settings.period))?;
        Ok(kernel)
    }

    /// Changes what the kernel half is told while it runs.
    fn control(&mut self, change: impl FnOnce(&mut Control)) -> Result<(), Error> {
        change(&mut self.control);
        let map = self
            .programs
            .map_mut("CONTROL")
            .ok_or(Error::Incomplete("CONTROL"))?;
        let mut control = Array::<_, Control>::try_from(map).map_err(map_error("CONTROL"))?;
        control
            .set(0, self.control, 0)
            .map_err(map_error("CONTROL"))
    }

    /// Lets the kernel half sample the process `tgid` (initial PID namespace), and those that it
    /// starts if `with_children`.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when there is no room for another process or layout.
    pub fn add_process(
        &mut self,
        tgid: u32,
        python: Option<&Python>,
        with_children: bool,
    ) -> Result<(), Error> {
        let process = TrackedProcess {
            with_children: with_children.into(),
            ..self.process(python)?
        };
        self.processes()?
            .insert(tgid, process, 0)
            .map_err(map_error("PROCESSES"))
    }

    /// Tells the kernel half where a process that it samples has its interpreter. Nothing happens
    /// when that has ended meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when there is no room for another layout.
    pub fn update_process(&mut self, tgid: u32, python: &Python) -> Result<(), Error> {
        let found = self.process(Some(python))?;
        self.change_process(tgid, |process| TrackedProcess {
            with_children: process.with_children,
            is_excluded: process.is_excluded,
            executable_pages: process.executable_pages,
            mappings_epoch: process.mappings_epoch,
            first_mapping: process.first_mapping,
            mapping_count: process.mapping_count,
            ..found
        })?;
        Ok(())
    }

    /// Whether the kernel half knows of a process what it knows of the one that started it. It
    /// does not when the user half found something out about `parent` between the fork and now.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be read.
    pub fn is_copy(&mut self, tgid: u32, parent: u32) -> Result<bool, Error> {
        let processes = self.processes()?;
        let known = |tgid: u32| match processes.get(&tgid, 0) {
            Ok(process) => Ok(Some(TrackedProcess {
                // What the kernel half writes itself, and goes its own way in each.
                new_code_ns: 0,
                executable_pages: 0,
                ..process
            })),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(source) => Err(map_error("PROCESSES")(source)),
        };
        Ok(known(tgid)? == known(parent)?)
    }

    /// Excludes a process from sampling until it runs another program, or includes it again.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn set_excluded(&mut self, tgid: u32, is_excluded: bool) -> Result<(), Error> {
        self.change_process(tgid, |process| TrackedProcess {
            is_excluded: is_excluded.into(),
            ..process
        })?;
        Ok(())
    }

    /// Lets the kernel half send again what it has sent before now, when it is next seen.
    ///
    /// What was sent before must be kept until this is done again: there may be samples that refer
    /// to it on their way.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn send_again(&mut self) -> Result<(), Error> {
        self.control(|control| control.resend_before_ns = monotonic_ns())
    }

    /// Changes what the kernel half knows of a process; [`false`] when that has ended meanwhile.
    fn change_process(
        &mut self,
        tgid: u32,
        change: impl FnOnce(TrackedProcess) -> TrackedProcess,
    ) -> Result<bool, Error> {
        const MUST_EXIST: u64 = 2;
        let mut processes = self.processes()?;
        let known = match processes.get(&tgid, 0) {
            Ok(known) => known,
            Err(MapError::KeyNotFound) => return Ok(false),
            Err(source) => return Err(map_error("PROCESSES")(source)),
        };
        match processes.insert(tgid, change(known), MUST_EXIST) {
            Err(MapError::SyscallError(error)) if error.io_error.kind() == NotFound => Ok(false),
            result => result.map(|()| true).map_err(map_error("PROCESSES")),
        }
    }

    fn process(&mut self, python: Option<&Python>) -> Result<TrackedProcess, Error> {
        Ok(match python {
            Some(python) => TrackedProcess {
                interpreters_head: python.interpreters_head,
                gil_holder: python.gil_holder.unwrap_or(0),
                thread_pointer_distance: python.thread_pointer_distance,
                layout: self.layout_index(&python.layout)?,
                ..TrackedProcess::default()
            },
            None => TrackedProcess::default(),
        })
    }

    fn processes(&mut self) -> Result<HashMap<&mut MapData, u32, TrackedProcess>, Error> {
        let map = self
            .programs
            .map_mut("PROCESSES")
            .ok_or(Error::Incomplete("PROCESSES"))?;
        HashMap::try_from(map).map_err(map_error("PROCESSES"))
    }

    /// The index of `layout` in the map of layouts, where it is put if it is not there.
    fn layout_index(&mut self, layout: &Layout) -> Result<u32, Error> {
        let known = self.layouts.iter().position(|known| known == layout);
        let index = known.unwrap_or(self.layouts.len());
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        if known.is_none() {
            let map = self
                .programs
                .map_mut("LAYOUTS")
                .ok_or(Error::Incomplete("LAYOUTS"))?;
            let mut layouts = Array::<_, Layout>::try_from(map).map_err(map_error("LAYOUTS"))?;
            layouts
                .set(index, layout, 0)
                .map_err(map_error("LAYOUTS"))?;
            self.layouts.push(*layout);
        }
        Ok(index)
    }

    /// Waits until the kernel half asks to be read, because much is waiting.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the ring buffer cannot be polled.
    pub async fn pressed(&self) -> Result<(), Error> {
        let mut guard = self
            .records
            .readable()
            .await
            .map_err(|source| Error::System {
                what: "the ring buffer cannot be polled",
                source,
            })?;
        guard.clear_ready();
        Ok(())
    }

    /// Hands every record that is waiting to `take`, and logs what the kernel half says.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        self.logger.flush();
        let records = self.records.get_mut();
        while let Some(record) = records.next() {
            take(&record);
        }
    }

    /// What the kernel half has counted so far.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the counters cannot be read.
    pub fn counters(&self) -> Result<Counters, Error> {
        Counters::read(&self.counter_map()?).map_err(map_error("COUNTERS"))
    }

    fn counter_map(&self) -> Result<PerCpuArray<&MapData, u64>, Error> {
        let map = self
            .programs
            .map("COUNTERS")
            .ok_or(Error::Incomplete("COUNTERS"))?;
        PerCpuArray::try_from(map).map_err(map_error("COUNTERS"))
    }

    /// How often the program has run and for how many nanoseconds in all, by the kernel's own
    /// account; [`None`] when the kernel does not keep it (`kernel.bpf_stats_enabled`).
    #[must_use]
    pub fn cost(&self) -> Option<(u64, u64)> {
        let info = self.programs.program(ENTRY)?.info().ok()?;
        let runs = info.run_count();
        let nanoseconds = u64::try_from(info.run_time().as_nanos()).ok()?;
        (runs != 0).then_some((runs, nanoseconds))
    }
}

/// Where the registers of a thread are in its stack in the kernel, which nobody tells before Linux
/// 5.15: at the end of its 16 KiB, in a `pt_regs` of this size.
const REGISTERS_IN_STACK: u32 = (16 << 10)
    - if cfg!(target_arch = "aarch64") {
        336
    } else {
        168
    };

/// Whether the kernel tells where the registers of a thread are.
fn tells_registers() -> bool {
    let helper = BpfHelper::BPF_FUNC_task_pt_regs;
    is_helper_supported(ProgramType::PerfEvent, helper).unwrap_or(false)
}

/// What the kernel half is to say, by the agent's own level.
fn log_level() -> u8 {
    let level = if tracing::enabled!(tracing::Level::TRACE) {
        aya_log::Level::Trace
    } else if tracing::enabled!(tracing::Level::DEBUG) {
        aya_log::Level::Debug
    } else {
        aya_log::Level::Info
    };
    level.into()
}

/// How many processes the kernel half can know at the same time.
fn max_processes(settings: &Settings) -> u32 {
    let most = if settings.whole_host {
        MAX_PROCESSES
    } else {
        MAX_PROCESSES_OF_PROGRAM
    };
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// The program that the clock runs.
fn entry(programs: &mut Ebpf) -> Result<&mut PerfEvent, Error> {
    programs
        .program_mut(ENTRY)
        .ok_or(Error::Incomplete(ENTRY))?
        .try_into()
        .map_err(refused(ENTRY))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Now, in nanoseconds of the clock that the kernel half reads.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

/// What it means that `program` was refused.
fn refused(program: &'static str) -> impl Fn(ProgramError) -> Error + Copy {
    move |refusal| Error::Program { program, refusal }
}

/// What it means that `map` could not be used.
fn map_error(map: &'static str) -> impl Fn(MapError) -> Error {
    move |source| Error::Map { map, source }
}

/// Why a program was refused, in one line: of the verifier's log the last line that is not its
/// statistics.
fn why_refused(refusal: &ProgramError) -> String {
    let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = refusal
    else {
        return chain(refusal);
    };
    let log = verifier_log.to_string();
    let statistics = ["verification time", "stack depth", "processed "];
    let said =
        log.lines().rev().map(str::trim).find(|line| {
            !line.is_empty() && !statistics.iter().any(|start| line.starts_with(start))
        });
    match said {
        Some(said) => format!("{io_error}, {said}"),
        None => io_error.to_string(),
    }
}

/// An error and all that it came from, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line = format!("{line}: {error}");
        source = error.source();
    }
    line
}

/// What to do about a `kernel.perf_event_paranoid` that forbids perf events: Debian and Ubuntu
/// have levels above the 2 of the kernel itself, at which capabilities do not help.
fn paranoia() -> String {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    match level.map(|level| level.trim().parse::<i32>()) {
        Ok(Ok(level)) if level > 2 => format!(
            ": kernel.perf_event_paranoid is {level}, which leaves perf events to root; run agent \
             as root or set it to 2 with `sysctl kernel.perf_event_paranoid=2`"
        ),
        _ => String::new(),
    }
}
