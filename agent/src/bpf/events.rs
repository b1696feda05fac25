//! The events at which samples are taken: a perf event and a BPF program for each kind.

use aya::programs::perf_event::SoftwareEvent;

use crate::profile::{Kind, kinds};

/// An event at which samples are taken.
#[derive(Debug)]
pub(super) struct Event {
    /// What the samples measure.
    pub(super) kind: &'static Kind,
    /// The program that it runs.
    pub(super) program: &'static str,
    /// The event of the kernel.
    pub(super) source: SoftwareEvent,
}

/// Every event, one line for each.
#[rustfmt::skip]
static EVENTS: &[Event] = &[
    event(&kinds::cpu::KIND, "on_cpu", SoftwareEvent::CpuClock),
    event(&kinds::page_faults::KIND, "on_page_fault", SoftwareEvent::PageFaults),
];

const fn event(kind: &'static Kind, program: &'static str, source: SoftwareEvent) -> Event {
    Event {
        kind,
        program,
        source,
    }
}

impl Event {
    /// The event of a kind.
    pub(super) fn of(kind: &Kind) -> Option<&'static Self> {
        EVENTS.iter().find(|event| event.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_an_event() {
        for kind in Kind::ALL {
            assert!(Event::of(kind).is_some(), "{}", kind.name);
        }
    }
}
