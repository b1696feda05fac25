//! Which pages there are, and which there were when there were most.
//!
//! Invariants: of the pages of a process with the same address only the last one is resident; what is at the peak of a
//! process was all resident at one look, and no look has found more.

use std::collections::{BTreeMap, HashMap};

use agent_common::{
    limits::MAX_PAGES,
    record::{IS_HUGE, PAGES_OF_HUGE, ProfileKind, Sample},
};
use rustix::param::page_size;

use super::events::PageEvent;

/// The process has ended, or may not be looked at: its pages stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// Pages by which processes have grown, by process.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    processes: HashMap<u32, ProcessPages>,
    /// How many are resident, of all processes.
    count: usize,
}

#[derive(Debug, Default)]
struct ProcessPages {
    /// Those that were resident at the last look, by address.
    resident: BTreeMap<u64, Page>,
    /// Those of the peak that are not resident any more.
    gone: Vec<Sample>,
    /// Bytes at the peak.
    peak_bytes: u64,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    sample: Sample,
    is_at_peak: bool,
}

impl ProcessPages {
    /// Takes pages away that are not resident any more; returns how many.
    fn remove(&mut self, first: u64, bytes: u64) -> usize {
        let range = first..first.saturating_add(bytes);
        let gone: Vec<_> = self
            .resident
            .range(range)
            .map(|(address, _)| *address)
            .collect();
        for address in &gone {
            if let Some(page) = self.resident.remove(address)
                && page.is_at_peak
            {
                self.gone.push(page.sample);
            }
        }
        gone.len()
    }

    /// Makes the present the peak, if it is one.
    fn note_peak(&mut self) {
        let values = self.resident.values().map(|page| page.sample.value);
        let bytes = values.fold(0, u64::saturating_add);
        if bytes <= self.peak_bytes {
            return;
        }
        self.peak_bytes = bytes;
        self.gone.clear();
        for page in self.resident.values_mut() {
            page.is_at_peak = true;
        }
    }
}

impl Ledger {
    /// Acts on an event; [`false`] where there is no room for a page.
    pub(super) fn add(&mut self, event: PageEvent) -> bool {
        match event {
            PageEvent::New(page) => {
                let process = self.processes.entry(page.sample.tgid).or_default();
                let (address, bytes) = extent(page.address);
                self.count -= process.remove(address, bytes);
                if self.count >= MAX_PAGES as usize {
                    return false;
                }
                let page = Page {
                    sample: page.sample,
                    is_at_peak: false,
                };
                process.resident.insert(address, page);
                self.count += 1;
            }
            PageEvent::Gone(page) => {
                let (address, _) = extent(page.address);
                if let Some(process) = self.processes.get_mut(&page.tgid) {
                    self.count -= process.remove(address, 1);
                }
            }
            PageEvent::Executed(tgid) => {
                let before = self.processes.remove(&tgid);
                self.count -= before.map_or(0, |process| process.resident.len());
            }
        }
        true
    }

    /// Finds out which pages are still resident.
    pub(super) fn look(&mut self, mut is_resident: impl FnMut(u32, u64) -> Result<bool, Ended>) {
        for (tgid, process) in &mut self.processes {
            if process.has_ended {
                // What comes late was resident at its end.
                process.note_peak();
                continue;
            }
            let mut gone = Vec::new();
            for address in process.resident.keys() {
                match is_resident(*tgid, *address) {
                    Ok(true) => {}
                    Ok(false) => gone.push(*address),
                    Err(Ended) => {
                        process.has_ended = true;
                        break;
                    }
                }
            }
            for address in gone {
                self.count -= process.remove(address, 1);
            }
            process.note_peak();
        }
    }

    /// Samples of what is resident.
    pub(super) fn resident(&self, kind: ProfileKind) -> impl Iterator<Item = Sample> {
        let pages = self.processes.values().flat_map(|it| it.resident.values());
        pages.map(move |page| Sample {
            kind,
            ..page.sample
        })
    }

    /// Samples of what was resident at the peak of each process.
    pub(super) fn at_peak(&self, kind: ProfileKind) -> impl Iterator<Item = Sample> {
        let processes = self.processes.values();
        let samples = processes.flat_map(|process| {
            let resident = process.resident.values().filter(|page| page.is_at_peak);
            let resident = resident.map(|page| page.sample);
            resident.chain(process.gone.iter().copied())
        });
        samples.map(move |sample| Sample { kind, ..sample })
    }
}

/// Where a page begins, and its bytes.
fn extent(page: u64) -> (u64, u64) {
    let pages = if page & IS_HUGE == 0 {
        1
    } else {
        PAGES_OF_HUGE
    };
    (page & !IS_HUGE, pages * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use agent_common::record::{GonePage, Header, NewPage, RecordKind};

    use super::*;
    use crate::aggregate::fixtures::sample;

    const PAGE: u64 = 4096;
    const START: u64 = 0x7f00_0020_0000;

    fn new_page(nth: u64, stack: u64) -> PageEvent {
        PageEvent::New(NewPage {
            sample: Sample {
                stack,
                value: 10,
                tgid: 7,
                ..sample()
            },
            address: START + nth * PAGE,
        })
    }

    fn huge_page(stack: u64) -> PageEvent {
        match new_page(0, stack) {
            PageEvent::New(mut page) => {
                page.address |= IS_HUGE;
                PageEvent::New(page)
            }
            other => other,
        }
    }

    fn gone(address: u64) -> PageEvent {
        PageEvent::Gone(GonePage {
            header: Header {
                kind: RecordKind::GONE_PAGE,
                reserved: 0,
                bytes: 24,
            },
            address,
            tgid: 7,
            reserved: 0,
        })
    }

    fn stacks(samples: impl Iterator<Item = Sample>) -> Vec<u64> {
        let mut stacks: Vec<_> = samples.map(|sample| sample.stack).collect();
        stacks.sort_unstable();
        stacks
    }

    fn in_use(ledger: &Ledger) -> Vec<u64> {
        stacks(ledger.resident(ProfileKind::IN_USE))
    }

    fn peak(ledger: &Ledger) -> Vec<u64> {
        stacks(ledger.at_peak(ProfileKind::PEAK))
    }

    #[test]
    fn what_is_given_back_is_in_use_no_more_and_at_the_peak() {
        let mut ledger = Ledger::default();
        for nth in 0..4 {
            assert!(ledger.add(new_page(nth, nth)));
        }
        ledger.look(|_, _| Ok(true));
        ledger.add(new_page(9, 9));
        ledger.look(|tgid, address| {
            assert_eq!(tgid, 7);
            Ok(address >= START + 2 * PAGE)
        });
        assert_eq!(in_use(&ledger), [2, 3, 9]);
        assert_eq!(peak(&ledger), [0, 1, 2, 3]);
        // More than ever before.
        for nth in 10..12 {
            ledger.add(new_page(nth, nth));
        }
        ledger.look(|_, _| Ok(true));
        assert_eq!(peak(&ledger), [2, 3, 9, 10, 11]);
        let kinds = ledger.at_peak(ProfileKind::PEAK);
        assert!(
            kinds
                .map(|sample| sample.kind)
                .all(|of| of == ProfileKind::PEAK)
        );
    }

    #[test]
    fn a_page_is_whose_was_the_last_at_its_address() {
        let mut ledger = Ledger::default();
        ledger.add(new_page(0, 1));
        ledger.add(new_page(3, 2));
        ledger.look(|_, _| Ok(true));
        // One in the same place that is a sample too, and one that is not.
        ledger.add(new_page(0, 3));
        ledger.add(gone(START + 3 * PAGE));
        ledger.look(|_, _| Ok(true));
        assert_eq!(in_use(&ledger), [3]);
        // A huge page in the place of several.
        ledger.add(new_page(511, 4));
        ledger.add(new_page(512, 5));
        ledger.add(huge_page(6));
        ledger.look(|_, _| Ok(true));
        assert_eq!(in_use(&ledger), [5, 6]);
        ledger.add(gone(START | IS_HUGE));
        assert_eq!(in_use(&ledger), [5]);
        assert_eq!(ledger.count, 1);
    }

    #[test]
    fn the_last_of_a_process_is_what_it_had_when_it_ended() {
        let mut ledger = Ledger::default();
        ledger.add(new_page(0, 1));
        ledger.look(|_, _| Err(Ended));
        ledger.add(new_page(1, 2));
        ledger.look(|_, _| panic!("it has ended"));
        assert_eq!(in_use(&ledger), [1, 2]);
        assert_eq!(peak(&ledger), [1, 2]);
        // Another program begins with nothing.
        ledger.add(PageEvent::Executed(7));
        ledger.add(new_page(4, 3));
        ledger.look(|_, _| Ok(true));
        assert_eq!((in_use(&ledger), peak(&ledger)), (vec![3], vec![3]));
    }

    #[test]
    fn pages_are_bounded() {
        let mut ledger = Ledger::default();
        let most = u64::from(MAX_PAGES);
        assert!((0..most).all(|nth| ledger.add(new_page(nth, nth))));
        assert!(!ledger.add(new_page(most, most)));
        // There is room again for what takes the place of another one.
        assert!(ledger.add(new_page(0, 1)));
        ledger.look(|_, address| Ok(address != START));
        assert!(ledger.add(new_page(most, most)));
        assert_eq!(ledger.count, MAX_PAGES as usize);
    }
}
