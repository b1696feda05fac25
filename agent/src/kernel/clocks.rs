//! The clocks that run the program: one for each processor, also when processors come and go.
//!
//! Invariant: the kernel half counts when a processor comes or goes; once there are clocks they are
//! those of the processors that were there at the count that is remembered, or later.

use std::time::Duration;

use agent_common::counter::Counter;
use aya::{
    programs::{
        ProgramError,
        perf_event::{
            PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
        },
    },
    sys::SyscallError,
    util::online_cpus,
};

use super::{Counters, ENTRY, Error, Kernel, entry, map_error, nanoseconds, refused};

/// The clocks of a [`Kernel`].
#[derive(Default)]
pub(super) struct Clocks {
    running: Vec<PerfEventLinkId>,
    /// Whether there are to be any.
    are_wanted: bool,
    /// What the kernel half had counted before all of them were started.
    changes: Option<u64>,
}

impl Kernel {
    /// Starts the clock of every processor.
    ///
    /// # Errors
    ///
    /// [`Error`] when a processor's clock cannot be used.
    pub fn start(&mut self) -> Result<(), Error> {
        self.clocks.are_wanted = true;
        // First: what changes from now on is seen later.
        let changes = self.processor_changes()?;
        let period_ns = self.control.period_ns;
        let processors = online_cpus().map_err(|(_, source)| Error::System {
            what: "the list of processors cannot be read",
            source,
        })?;
        let entry = entry(&mut self.programs)?;
        let mut gone = None;
        for cpu in processors {
            let clock = entry.attach(
                PerfEventConfig::Software(SoftwareEvent::CpuClock),
                PerfEventScope::AllProcessesOneCpu { cpu },
                SamplePolicy::Period(period_ns),
                false,
            );
            match clock {
                Ok(clock) => self.clocks.running.push(clock),
                Err(refusal) if is_gone(&refusal) => gone = Some(Error::Clock { cpu, refusal }),
                Err(refusal) => return Err(Error::Clock { cpu, refusal }),
            }
        }
        match gone {
            Some(error) if self.clocks.running.is_empty() => Err(error),
            _ => {
                self.clocks.changes = Some(changes);
                Ok(())
            }
        }
    }

    /// Lets the clocks, which run, tick at another period from now on.
    ///
    /// # Errors
    ///
    /// [`Error`] when a processor's clock cannot be used.
    pub fn set_period(&mut self, period: Duration) -> Result<(), Error> {
        self.detach()?;
        self.control(|control| control.period_ns = nanoseconds(period))?;
        self.start()
    }

    /// Lets the clocks, if they run, be those of the processors that are there now; says whether
    /// any came or went since they were started. When that fails it can be tried again.
    ///
    /// # Errors
    ///
    /// [`Error`] when a processor's clock cannot be used.
    pub fn follow_processors(&mut self) -> Result<bool, Error> {
        if !self.clocks.are_wanted || self.clocks.changes == Some(self.processor_changes()?) {
            return Ok(false);
        }
        self.detach()?;
        self.start()?;
        Ok(true)
    }

    /// How many processors are sampled.
    #[must_use]
    pub fn processors(&self) -> usize {
        self.clocks.running.len()
    }

    /// Stops the clocks. What was sampled can still be read.
    ///
    /// # Errors
    ///
    /// [`Error::Program`] when the program cannot be detached.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.clocks = Clocks::default();
        entry(&mut self.programs)?.unload().map_err(refused(ENTRY))
    }

    fn detach(&mut self) -> Result<(), Error> {
        self.clocks.changes = None;
        for clock in std::mem::take(&mut self.clocks.running) {
            entry(&mut self.programs)?
                .detach(clock)
                .map_err(refused(ENTRY))?;
        }
        Ok(())
    }

    /// In how many steps processors have come or gone.
    fn processor_changes(&self) -> Result<u64, Error> {
        Counters::read_one(&self.counter_map()?, Counter::CPU_HOTPLUG_CHANGES)
            .map_err(map_error("COUNTERS"))
    }
}

/// Whether the processor has gone since the list was read.
fn is_gone(refusal: &ProgramError) -> bool {
    matches!(
        refusal,
        ProgramError::SyscallError(SyscallError { io_error, .. })
            if io_error.raw_os_error() == Some(libc::ENODEV)
    )
}
