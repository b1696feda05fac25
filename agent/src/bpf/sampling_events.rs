//! The sampling events: one perf event of each kind for each online CPU, also while CPUs come and go.
//!
//! Invariant: a BPF program counts CPU hotplug events; attached events are those of the CPUs that
//! were online at the count that is stored, or later.

use aya::{
    Ebpf,
    programs::{
        PerfEvent, ProgramError,
        perf_event::{PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy},
    },
    sys::SyscallError,
    util::online_cpus,
};

use super::{
    error::{Error, program_error},
    events::Event,
    rights::with_sys_admin,
};
use crate::profile::{Kind, Period};

/// The sampling events of all online CPUs.
#[derive(Default)]
pub(super) struct SamplingEvents {
    events: Vec<AttachedEvent>,
    /// Whether there are to be any.
    are_enabled: bool,
    /// CPU hotplug events that were counted before all of them were attached.
    hotplug_events: Option<u64>,
}

/// An event on the CPUs to which it is attached.
struct AttachedEvent {
    event: &'static Event,
    links: Vec<PerfEventLinkId>,
}

impl SamplingEvents {
    /// Loads the programs for those kinds that are sampled by events.
    pub(super) fn load(object: &mut Ebpf, kinds: &[&'static Kind]) -> Result<Self, Error> {
        let mut sampling_events = Self::default();
        for kind in kinds.iter().filter(|kind| !kind.is_of_passes()) {
            for event in Event::of(kind) {
                // Several kinds may be of the same event.
                let mut known = sampling_events.events.iter();
                if known.any(|known| known.event.program == event.program) {
                    continue;
                }
                program(object, event)?
                    .load()
                    .map_err(program_error("load", event.program))?;
                sampling_events.events.push(AttachedEvent {
                    event,
                    links: Vec::new(),
                });
            }
        }
        Ok(sampling_events)
    }

    /// From now on there are to be events: [`Self::attach`] that fails is tried again.
    pub(super) fn enable(&mut self) {
        self.are_enabled = true;
    }

    /// Attaches the events that are not attached, on each online CPU. `hotplug_events` must have been
    /// read before: what changes from then on is seen later.
    pub(super) fn attach(
        &mut self,
        object: &mut Ebpf,
        period_ns: u64,
        hotplug_events: u64,
    ) -> Result<(), Error> {
        let cpus = online_cpus().map_err(|(_, source)| Error::System {
            call: "read the list of online CPUs",
            source,
        })?;
        for AttachedEvent { event, links } in &mut self.events {
            if links.is_empty() {
                attach(object, event, &cpus, period_ns, links)?;
            }
        }
        self.hotplug_events = Some(hotplug_events);
        Ok(())
    }

    /// Whether there are to be events.
    pub(super) fn are_enabled(&self) -> bool {
        self.are_enabled
    }

    /// Whether all were attached since the last CPU hotplug event.
    pub(super) fn are_current(&self, hotplug_events: u64) -> bool {
        self.hotplug_events == Some(hotplug_events)
    }

    /// Detaches all events, to attach others.
    pub(super) fn detach(&mut self, object: &mut Ebpf) -> Result<(), Error> {
        self.detach_those(object, |_| true)
    }

    /// Detaches the events of the clock, to attach others; those that count go on.
    pub(super) fn detach_clock(&mut self, object: &mut Ebpf) -> Result<(), Error> {
        self.detach_those(object, |kind| kind.period == Period::Rate)
    }

    fn detach_those(
        &mut self,
        object: &mut Ebpf,
        is_wanted: impl Fn(&Kind) -> bool,
    ) -> Result<(), Error> {
        self.hotplug_events = None;
        for AttachedEvent { event, links } in &mut self.events {
            if !is_wanted(event.kind) {
                continue;
            }
            let program = program(object, event)?;
            for link in std::mem::take(links) {
                program
                    .detach(link)
                    .map_err(program_error("detach", event.program))?;
            }
        }
        Ok(())
    }

    /// Whether no programs are loaded.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Detaches all events until [`Self::enable`]; their programs stay loaded.
    pub(super) fn pause(&mut self, object: &mut Ebpf) -> Result<(), Error> {
        self.are_enabled = false;
        self.detach(object)
    }

    /// Unloads the programs.
    pub(super) fn unload(&mut self, object: &mut Ebpf) -> Result<(), Error> {
        self.are_enabled = false;
        self.hotplug_events = None;
        for AttachedEvent { event, .. } in std::mem::take(&mut self.events) {
            program(object, event)?
                .unload()
                .map_err(program_error("unload", event.program))?;
        }
        Ok(())
    }

    /// How many CPUs are sampled.
    pub(super) fn cpus(&self) -> usize {
        let cpus = self.events.iter();
        let cpus = cpus.map(|of| of.links.len() / of.event.sources.len());
        cpus.max().unwrap_or(0)
    }

    /// Runs of all programs and their time in nanoseconds; [`None`] where the kernel does not count
    /// them.
    pub(super) fn run_stats(&self, object: &Ebpf) -> Option<(u64, u64)> {
        let (mut runs, mut nanoseconds) = (0, 0);
        for AttachedEvent { event, .. } in &self.events {
            let info = object.program(event.program)?.info().ok()?;
            runs += info.run_count();
            nanoseconds += u64::try_from(info.run_time().as_nanos()).ok()?;
        }
        (runs != 0).then_some((runs, nanoseconds))
    }
}

/// Attaches an event on each CPU.
fn attach(
    object: &mut Ebpf,
    event: &'static Event,
    cpus: &[u32],
    period_ns: u64,
    links: &mut Vec<PerfEventLinkId>,
) -> Result<(), Error> {
    let program = program(object, event)?;
    let period = match event.kind.period {
        Period::Rate => period_ns,
        Period::Events(events) => events,
        // The program looks at each of them.
        Period::Bytes(_) => 1,
    };
    let mut offline = None;
    let sources = event.sources.iter();
    for (source, &cpu) in sources.flat_map(|source| cpus.iter().map(move |cpu| (source, cpu))) {
        let link = with_sys_admin(|| {
            program.attach(
                PerfEventConfig::Software(*source),
                PerfEventScope::AllProcessesOneCpu { cpu },
                SamplePolicy::Period(period),
                false,
            )
        });
        let failed = |error| Error::SamplingEvent {
            event: event.kind.name,
            cpu,
            error,
        };
        match link {
            Ok(link) => links.push(link),
            Err(error) if is_offline(&error) => offline = Some(failed(error)),
            Err(error) => return Err(failed(error)),
        }
    }
    match offline {
        Some(error) if links.is_empty() => Err(error),
        _ => Ok(()),
    }
}

/// The program of an event.
fn program<'a>(object: &'a mut Ebpf, event: &Event) -> Result<&'a mut PerfEvent, Error> {
    object
        .program_mut(event.program)
        .ok_or(Error::Incomplete(event.program))?
        .try_into()
        .map_err(program_error("load", event.program))
}

/// Whether the CPU has gone offline since the list was read.
fn is_offline(error: &ProgramError) -> bool {
    matches!(
        error,
        ProgramError::SyscallError(SyscallError { io_error, .. })
            if io_error.raw_os_error() == Some(libc::ENODEV)
    )
}
