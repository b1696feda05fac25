//! The sampling events: one perf event (software `cpu-clock`) for each online CPU, also while CPUs
//! come and go.
//!
//! Invariant: a BPF program counts CPU hotplug events; attached events are those of the CPUs that
//! were online at the count that is stored, or later.

use aya::{
    programs::{
        PerfEvent, ProgramError,
        perf_event::{
            PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
        },
    },
    sys::SyscallError,
    util::online_cpus,
};

use super::error::{Error, program_error};

/// The program that sampling events run.
pub(super) const ON_CPU: &str = "on_cpu";

/// The sampling events of all online CPUs.
#[derive(Default)]
pub(super) struct SamplingEvents {
    attached: Vec<PerfEventLinkId>,
    /// Whether there are to be any.
    are_enabled: bool,
    /// CPU hotplug events that were counted before all of them were attached.
    hotplug_events: Option<u64>,
}

impl SamplingEvents {
    /// From now on there are to be events: [`Self::attach`] that fails is tried again.
    pub(super) fn enable(&mut self) {
        self.are_enabled = true;
    }

    /// Attaches an event on each online CPU. `hotplug_events` must have been read before: what
    /// changes from then on is seen later.
    pub(super) fn attach(
        &mut self,
        program: &mut PerfEvent,
        period_ns: u64,
        hotplug_events: u64,
    ) -> Result<(), Error> {
        let cpus = online_cpus().map_err(|(_, source)| Error::System {
            call: "read the list of online CPUs",
            source,
        })?;
        let mut offline = None;
        for cpu in cpus {
            let link = program.attach(
                PerfEventConfig::Software(SoftwareEvent::CpuClock),
                PerfEventScope::AllProcessesOneCpu { cpu },
                SamplePolicy::Period(period_ns),
                false,
            );
            match link {
                Ok(link) => self.attached.push(link),
                Err(error) if is_offline(&error) => {
                    offline = Some(Error::SamplingEvent { cpu, error });
                }
                Err(error) => return Err(Error::SamplingEvent { cpu, error }),
            }
        }
        match offline {
            Some(error) if self.attached.is_empty() => Err(error),
            _ => {
                self.hotplug_events = Some(hotplug_events);
                Ok(())
            }
        }
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
    pub(super) fn detach(&mut self, program: &mut PerfEvent) -> Result<(), Error> {
        self.hotplug_events = None;
        for link in std::mem::take(&mut self.attached) {
            program
                .detach(link)
                .map_err(program_error("detach", ON_CPU))?;
        }
        Ok(())
    }

    /// How many events are attached.
    pub(super) fn len(&self) -> usize {
        self.attached.len()
    }
}

/// Whether the CPU has gone offline since the list was read.
fn is_offline(error: &ProgramError) -> bool {
    matches!(
        error,
        ProgramError::SyscallError(SyscallError { io_error, .. })
            if io_error.raw_os_error() == Some(libc::ENODEV)
    )
}
