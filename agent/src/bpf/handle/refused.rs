//! What the kernel refuses of that which is not sampled.

use super::Bpf;
use crate::{
    bpf::{
        error::Error,
        lock_waits::LockWaits,
        probes::{AllocationProbes, RaiseProbe},
        sampling_events::SamplingEvents,
        switches::SwitchTracing,
        thread_visits::ThreadVisits,
        tracepoints::attach_page_allocated,
    },
    profile::{Kind, Unit},
};

impl Bpf {
    /// Why context switches, which are not traced, cannot be.
    pub fn refused_switches(&mut self) -> Option<Error> {
        SwitchTracing::check(&mut self.object).err()
    }

    /// Tries the events of some kinds, which are not sampled: those that the kernel refuses, with the
    /// error.
    pub fn refused_events(
        &mut self,
        kinds: impl IntoIterator<Item = &'static Kind>,
    ) -> Vec<(&'static Kind, Error)> {
        let mut refused = Vec::new();
        let (of_passes, others): (Vec<_>, Vec<_>) =
            kinds.into_iter().partition(|kind| kind.is_of_passes());
        let (of_probe, of_events): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|kind| kind.is_of_probe());
        if let Some(kind) = of_passes.first()
            && let Err(error) = ThreadVisits::check(&mut self.object)
        {
            // What makes one of them impossible makes all of them.
            refused.push((*kind, error));
        } else if let Some(kind) = of_passes.iter().find(|kind| kind.is_about_releases())
            && let Err(error) = LockWaits::load(&mut self.object)
        {
            refused.push((*kind, error));
        }
        for kind in of_probe {
            let checked = if kind.is_about_allocations() {
                AllocationProbes::check(&mut self.object).map(drop)
            } else {
                RaiseProbe::check(&mut self.object).map(drop)
            };
            if let Err(error) = checked {
                refused.push((kind, error));
            }
        }
        for kind in of_events {
            if let Err(error) = self.try_events(kind) {
                refused.push((kind, error));
            }
        }
        refused
    }

    /// Tries the events of a kind.
    fn try_events(&mut self, kind: &'static Kind) -> Result<(), Error> {
        if kind.unit == Unit::Bytes && !self.counts_memory {
            return Err(Error::ResidentCounters);
        }
        if kind.is_about_copies() {
            attach_page_allocated(&mut self.object)?;
        }
        let mut events = SamplingEvents::load(&mut self.object, &[kind])?;
        let attached = events.attach(&mut self.object, self.control.period_ns, 0);
        attached.and(events.unload(&mut self.object))
    }
}
