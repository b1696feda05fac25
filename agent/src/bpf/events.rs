//! The events at which samples are taken: a perf event and a BPF program for each kind that has one.

use aya::programs::perf_event::SoftwareEvent;

use crate::profile::{Kind, kinds};

/// An event at which samples are taken.
#[derive(Debug)]
pub(super) struct Event {
    /// What the samples measure.
    pub(super) kind: &'static Kind,
    /// The program that it runs.
    pub(super) program: &'static str,
    /// The events of the kernel that run it.
    pub(super) sources: &'static [SoftwareEvent],
}

/// Every event, one line for each.
#[rustfmt::skip]
static EVENTS: &[Event] = &[
    event(&kinds::cpu::KIND, "on_cpu", &[SoftwareEvent::CpuClock]),
    event(&kinds::page_faults::KIND, "on_page_fault", &[SoftwareEvent::PageFaults]),
    event(&kinds::major_faults::KIND, "on_major_fault", &[SoftwareEvent::PageFaultsMaj]),
    event(&kinds::growth::KIND, "on_fault", &[SoftwareEvent::PageFaults]),
    event(&kinds::growth::KIND, "on_resolved_fault", &[SoftwareEvent::PageFaultsMin, SoftwareEvent::PageFaultsMaj]),
    event(&kinds::copy_on_write::KIND, "on_possible_copy", &[SoftwareEvent::PageFaults]),
    event(&kinds::copy_on_write::KIND, "on_resolved_copy", &[SoftwareEvent::PageFaultsMin, SoftwareEvent::PageFaultsMaj]),
];

const fn event(
    kind: &'static Kind,
    program: &'static str,
    sources: &'static [SoftwareEvent],
) -> Event {
    Event {
        kind,
        program,
        sources,
    }
}

impl Event {
    /// The events of a kind.
    pub(super) fn of(kind: &Kind) -> impl Iterator<Item = &'static Self> {
        let kind = match kind.pages() {
            Some(_) => &kinds::growth::KIND,
            None => kind,
        };
        EVENTS.iter().filter(move |event| event.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_events_have_one() {
        for kind in Kind::ALL {
            let has_event = Event::of(kind).next().is_some();
            let is_of_event = !kind.is_of_passes() && !kind.is_of_probe();
            assert_eq!(has_event, is_of_event, "{}", kind.name);
        }
    }
}
