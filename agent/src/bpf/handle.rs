//! The loaded BPF programs: one call for each thing that the agent does with them.

mod processes;
mod refused;

use std::time::Duration;

use agent_common::{
    counter::Counter,
    layout::ResidentLayout,
    maps::{Control, TableState},
    unwind::Rule,
};
use aya::{
    Ebpf,
    maps::{Array, MapData},
};
use aya_log::EbpfLogger;
use log::Log;
use rustix::time::{ClockId, clock_gettime};

use super::{
    allocators::Allocators,
    control::CONTROL,
    counters::{CounterMap, Counters},
    error::{Error, map_error},
    kernel_functions,
    lock_waits::LockWaits,
    mappings::MappingMap,
    maps,
    object::{self, LoadOptions, Visits},
    pass_clocks::PassClocks,
    probes::{AllocationProbes, RaiseProbe},
    process_map::ProcessMap,
    ring::Ring,
    sampled_pages::SampledPages,
    sampling_events::SamplingEvents,
    switches::SwitchTracing,
    table_loader::{LoadedTables, TableLoader},
    thread_visits::ThreadVisits,
    tracepoints::{attach, attach_page_allocated},
    unwind_tables::UnwindTableMaps,
    walk_maps::WalkMaps,
};
use crate::profile::Kind;

/// The programs on raw tracepoints, each with its tracepoint.
const TRACEPOINTS: [(&str, &str); 5] = [
    ("on_fork", "sched_process_fork"),
    ("on_exec", "sched_process_exec"),
    ("on_exit", "sched_process_exit"),
    ("on_free", "sched_process_free"),
    ("on_cpu_hotplug", "cpuhp_exit"),
];

/// Most maps of unwind tables that are kept for walks that are continued: each of them has a descriptor.
const TABLES_OF_CONTINUED_WALKS: usize = 128;

/// How many maps of unwind tables are also read in the agent.
fn kept_tables(options: &LoadOptions) -> usize {
    if options.visits != Visits::None {
        usize::MAX
    } else if options.with_stack_copies {
        TABLES_OF_CONTINUED_WALKS
    } else {
        0
    }
}

/// What passes over all threads need.
pub struct PassMaps {
    /// Visits them.
    pub visits: ThreadVisits,
    /// What the walks look up.
    pub maps: WalkMaps,
    /// Who ends waits for locks, if that is recorded.
    pub lock_waits: Option<LockWaits>,
    /// Samples threads that run, where those of CPU time are taken.
    pub clocks: Option<PassClocks>,
}

/// The loaded BPF programs.
pub struct Bpf {
    object: Ebpf,
    logger: EbpfLogger<&'static dyn Log>,
    /// [`None`] once it was taken.
    ring: Option<Ring>,
    /// [`None`] once they were taken, and where there are none.
    pass_maps: Option<Box<PassMaps>>,
    /// [`None`] once they were taken, and where no walks are continued.
    walk_maps: Option<Box<WalkMaps>>,
    /// [`None`] once they were taken, and where none are looked at.
    sampled_pages: Option<Box<SampledPages>>,
    control_map: Array<MapData, Control>,
    control: Control,
    processes: ProcessMap,
    mappings: MappingMap,
    unwind_tables: UnwindTableMaps,
    counters: CounterMap,
    sampling_events: SamplingEvents,
    /// [`None`] where context switches are not traced.
    switches: Option<SwitchTracing>,
    /// [`None`] once it was taken, and where there is none.
    raise_probe: Option<Box<RaiseProbe>>,
    /// [`None`] once they were taken, and where there are none.
    allocation_probes: Option<Box<AllocationProbes>>,
    /// [`None`] where allocations are not recorded.
    allocators: Option<Allocators>,
    /// Whether it is known where the kernel counts resident pages.
    counts_memory: bool,
}

impl Bpf {
    /// Loads the BPF programs; nothing is sampled before [`Self::start`].
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error`] when the kernel lacks something or refuses a program.
    pub fn load(options: &LoadOptions) -> Result<Self, Error> {
        let has_visits = options.visits != Visits::None;
        let has = |is_of: fn(&Kind) -> bool| options.kinds.iter().any(|kind| is_of(kind));
        let pages = has(|kind| kind.pages().is_some());
        let mut functions = Vec::new();
        if has_visits {
            functions.push(ThreadVisits::FUNCTION);
            if options.with_loops {
                functions.extend(kernel_functions::names());
            }
        }
        if pages {
            functions.push(SampledPages::FUNCTION);
        }
        let btf = object::kernel_btf(&functions)?;
        let copies = has(Kind::is_about_copies);
        let counts_memory = btf.layout.resident != ResidentLayout::default();
        if (pages || copies || has(Kind::is_growth)) && !counts_memory {
            return Err(Error::ResidentCounters);
        }
        let mut object = object::load(options, &btf)?;
        let sampling_events = SamplingEvents::load(&mut object, &options.kinds)?;
        let raise_probe = has(Kind::is_about_exceptions).then(|| RaiseProbe::load(&mut object));
        let raise_probe = raise_probe.transpose()?.map(Box::new);
        let allocation_probes =
            has(Kind::is_about_allocations).then(|| AllocationProbes::load(&mut object));
        let allocation_probes = allocation_probes.transpose()?.map(Box::new);
        let allocators = match &allocation_probes {
            Some(probes) => Some(Allocators::take(&mut object, probes.take_announced())?),
            None => None,
        };
        for (program, tracepoint) in TRACEPOINTS {
            attach(&mut object, program, tracepoint)?;
        }
        if copies {
            attach_page_allocated(&mut object)?;
        }
        let switches = options.switches.as_deref();
        let switches = switches.map(|classes| SwitchTracing::load(&mut object, classes));
        let switches = switches.transpose()?;
        let tables = TableLoader::take(&mut object, kept_tables(options))?;
        let mut walk_maps = None;
        if options.with_stack_copies {
            walk_maps = Some(Box::new(WalkMaps::open(&object, tables.clone())?));
        }
        let mut sampled_pages = None;
        if pages {
            sampled_pages = Some(Box::new(SampledPages::load(&mut object, &btf.functions)?));
        }
        let mut pass_maps = None;
        if has_visits {
            let process = match options.visits {
                Visits::OfProcess(process) => Some(process),
                _ => None,
            };
            let maps = WalkMaps::open(&object, tables.clone())?;
            let visits = ThreadVisits::load(&mut object, process, &btf)?;
            let mut lock_waits = None;
            if options.lock_releases {
                lock_waits = Some(LockWaits::load(&mut object)?);
            }
            pass_maps = Some(Box::new(PassMaps {
                visits,
                maps,
                lock_waits,
                clocks: PassClocks::of(&object),
            }));
        }
        let mut bpf = Self {
            pass_maps,
            walk_maps,
            sampled_pages,
            ring: Some(Ring::take(&mut object)?),
            control_map: maps::take(&mut object, CONTROL)?,
            control: Control::default(),
            processes: ProcessMap::take(&mut object)?,
            mappings: MappingMap::take(&mut object, options.whole_host)?,
            unwind_tables: UnwindTableMaps::take(&mut object, tables)?,
            counters: CounterMap::take(&mut object)?,
            sampling_events,
            switches,
            raise_probe,
            allocation_probes,
            allocators,
            counts_memory,
            logger: EbpfLogger::init(&mut object)?,
            object,
        };
        bpf.control(|control| control.period_ns = nanoseconds(options.period))?;
        Ok(bpf)
    }

    /// Has what was sent before now sent again when it is next sampled.
    ///
    /// What was sent before must be kept until the next call: records on their way may refer to it.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn resend(&mut self) -> Result<(), Error> {
        self.control(|control| control.resend_before_ns = monotonic_ns())
    }

    /// Sets unwind rules, with their indices, to which no loaded table refers yet.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the map cannot be written.
    pub fn set_rules(&mut self, rules: &[(u16, Rule)]) -> Result<(), Error> {
        self.unwind_tables.set_rules(rules)
    }

    /// Loads unwind tables, from any thread.
    #[must_use]
    pub fn table_loader(&self) -> TableLoader {
        self.unwind_tables.loader()
    }

    /// Publishes unwind tables that have been loaded, whose rules must have been added.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be written.
    pub fn use_tables(&mut self, loaded: &LoadedTables) -> Result<(), Error> {
        self.unwind_tables.publish(loaded)
    }

    /// Marks unwind tables as absent, with the reason as `state`; [`TableLoader::unload`]
    /// gives back what they took.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when a map cannot be written.
    pub fn set_table_states(&mut self, tables: &[u32], state: TableState) -> Result<(), Error> {
        self.unwind_tables.unload(tables, state)
    }

    /// Starts to sample other kinds than those with which this was loaded, of which none was sampled by events, on every
    /// online CPU; the first time their programs are loaded.
    ///
    /// # Errors
    ///
    /// [`Error`] when the kernel refuses a program or the event of a CPU.
    pub fn start_events(&mut self, kinds: &[&'static Kind]) -> Result<(), Error> {
        if self.sampling_events.is_empty() {
            self.sampling_events = SamplingEvents::load(&mut self.object, kinds)?;
        }
        self.start()
    }

    /// Stops sampling by events until they are started again.
    ///
    /// # Errors
    ///
    /// [`Error`] when the kernel refuses that.
    pub fn pause_events(&mut self) -> Result<(), Error> {
        self.sampling_events.pause(&mut self.object)
    }

    /// Starts to sample on every online CPU.
    ///
    /// # Errors
    ///
    /// [`Error::SamplingEvent`] when the event of a CPU is refused.
    pub fn start(&mut self) -> Result<(), Error> {
        self.sampling_events.enable();
        let hotplug_events = self.hotplug_events()?;
        let period_ns = self.control.period_ns;
        self.sampling_events
            .attach(&mut self.object, period_ns, hotplug_events)?;
        match &mut self.switches {
            Some(switches) => switches.attach(&mut self.object),
            None => Ok(()),
        }
    }

    /// Changes the period of the clock of a session that was started.
    ///
    /// # Errors
    ///
    /// [`Error::SamplingEvent`] when the event of a CPU is refused.
    pub fn set_period(&mut self, period: Duration) -> Result<(), Error> {
        self.sampling_events.detach_clock(&mut self.object)?;
        self.control(|control| control.period_ns = nanoseconds(period))?;
        self.start()
    }

    /// Attaches the sampling events anew if CPUs have come or gone since they were attached;
    /// returns whether it did. A call that failed can be repeated.
    ///
    /// # Errors
    ///
    /// [`Error::SamplingEvent`] when the event of a CPU is refused.
    pub fn sync_online_cpus(&mut self) -> Result<bool, Error> {
        if !self.sampling_events.are_enabled()
            || self.sampling_events.are_current(self.hotplug_events()?)
        {
            return Ok(false);
        }
        self.sampling_events.detach(&mut self.object)?;
        self.start()?;
        Ok(true)
    }

    /// How many CPUs are sampled.
    #[must_use]
    pub fn sampled_cpus(&self) -> usize {
        self.sampling_events.cpus()
    }

    /// Stops sampling. Records that are waiting can still be read.
    ///
    /// # Errors
    ///
    /// [`Error::Program`] when the program cannot be unloaded.
    pub fn stop(&mut self) -> Result<(), Error> {
        if self.switches.take().is_some() {
            SwitchTracing::unload(&mut self.object)?;
        }
        self.sampling_events.unload(&mut self.object)
    }

    /// Takes the reader's end of the ring buffer, which is for another thread; [`None`] the second
    /// time.
    pub fn take_ring(&mut self) -> Option<Ring> {
        self.ring.take()
    }

    /// Takes what passes need, which is for another thread; [`None`] the second time, and where there are
    /// none.
    pub fn take_pass_maps(&mut self) -> Option<PassMaps> {
        self.pass_maps.take().map(|maps| *maps)
    }

    /// Takes what continued walks look up, which is for another thread; [`None`] the second time, and where there are none.
    pub fn take_walk_maps(&mut self) -> Option<WalkMaps> {
        self.walk_maps.take().map(|maps| *maps)
    }

    /// Takes the pages of which there are samples, which are for another thread; [`None`] the second time, and where
    /// none are looked at.
    pub fn take_sampled_pages(&mut self) -> Option<SampledPages> {
        self.sampled_pages.take().map(|pages| *pages)
    }

    /// Takes the probe of exceptions, which is for another thread; [`None`] the second time, and where there is none.
    pub fn take_raise_probe(&mut self) -> Option<RaiseProbe> {
        self.raise_probe.take().map(|probe| *probe)
    }

    /// Takes the probes of allocations, which are for another thread; [`None`] the second time, and where there are none.
    pub fn take_allocation_probes(&mut self) -> Option<AllocationProbes> {
        self.allocation_probes.take().map(|probes| *probes)
    }

    /// Writes the log of the BPF programs to the agent's.
    pub fn flush_log(&mut self) {
        self.logger.flush();
    }

    /// The counters of the BPF programs.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when the counters cannot be read.
    pub fn counters(&self) -> Result<Counters, Error> {
        self.counters.read_all()
    }

    /// Runs of the sampling programs and their time in nanoseconds, as the kernel counts them;
    /// [`None`] where it does not (`kernel.bpf_stats_enabled`).
    #[must_use]
    pub fn run_stats(&self) -> Option<(u64, u64)> {
        self.sampling_events.run_stats(&self.object)
    }

    /// One of these counters.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] when it cannot be read.
    pub fn counter(&self, counter: Counter) -> Result<u64, Error> {
        self.counters.read(counter)
    }

    /// CPU hotplug events so far.
    fn hotplug_events(&self) -> Result<u64, Error> {
        self.counters.read(Counter::CPU_HOTPLUG_CHANGES)
    }

    fn control(&mut self, change: impl FnOnce(&mut Control)) -> Result<(), Error> {
        change(&mut self.control);
        self.control_map
            .set(0, self.control, 0)
            .map_err(map_error("write", CONTROL))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Now, in nanoseconds of the clock that the BPF programs read.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}
