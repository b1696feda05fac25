//! Which pages there are, and which there were when there were most.
//!
//! A page that is not where it was may have been moved, which is known a moment later: it is absent until then.
//!
//! Invariants: of the pages of a process with the same address only the last one is resident; what is at the peak was
//! all resident at one look, and no look has found more; at most [`MAX_PAGES`] pages are resident or absent, and as many
//! of the peak are gone.

use std::{
    collections::{BTreeMap, HashMap},
    ops::RangeBounds,
    time::Instant,
};

use agent_common::{
    limits::MAX_PAGES,
    record::{IS_HUGE, MovedMemory, ProfileKind, Sample, pages_of_huge},
};
use rustix::param::page_size;

use super::events::PageEvent;

/// Whether a page is resident; [`None`] where that is not known.
pub(super) type Residency<'a> = dyn Fn(u64) -> Option<bool> + 'a;

/// Pages by which processes have grown, by process.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Those that were resident at the last look, or are absent since a moment ago, by process and address.
    pages: HashMap<u32, Pages>,
    /// How many these are.
    count: usize,
    /// Those of the peak that are not resident any more.
    gone: Vec<Sample>,
    /// Bytes at the peak.
    peak_bytes: u64,
    /// What the process had that has ended last.
    last: Pages,
    /// Samples for which there was no room.
    lost: u64,
}

type Pages = BTreeMap<u64, Page>;

#[derive(Clone, Copy, Debug)]
struct Page {
    sample: Sample,
    is_huge: bool,
    is_at_peak: bool,
    /// When it was not found where it should be.
    absent_since: Option<Instant>,
}

impl Page {
    fn is_resident(&self) -> bool {
        self.absent_since.is_none()
    }
}

/// A page that has been moved: its process, and the addresses before and now, as
/// [`NewPage::address`](agent_common::record::NewPage::address) has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedPage {
    pub(super) tgid: u32,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Ledger {
    /// Acts on an event; returns the pages that it has moved.
    pub(super) fn add(&mut self, event: PageEvent) -> Vec<MovedPage> {
        match event {
            PageEvent::New(page) => {
                let tgid = page.sample.tgid;
                let (address, bytes) = extent(page.address);
                self.remove_range(tgid, address, bytes);
                if self.count >= MAX_PAGES as usize {
                    self.lost += u64::from(page.sample.count);
                    return Vec::new();
                }
                let page = Page {
                    sample: page.sample,
                    is_huge: page.address & IS_HUGE != 0,
                    is_at_peak: false,
                    absent_since: None,
                };
                self.pages.entry(tgid).or_default().insert(address, page);
                self.count += 1;
            }
            PageEvent::Moved(memory) => return self.relocate(&memory),
            PageEvent::Gone(page) => {
                let (address, _) = extent(page.address);
                self.remove_range(page.tgid, address, 1);
            }
            PageEvent::Began(tgid) => {
                self.remove_process(tgid);
            }
            PageEvent::Ended(tgid) => {
                let pages = self.remove_process(tgid);
                if !pages.is_empty() {
                    self.last = pages;
                }
            }
        }
        Vec::new()
    }

    /// Gives the pages of memory that has been moved their new addresses; returns them.
    fn relocate(&mut self, memory: &MovedMemory) -> Vec<MovedPage> {
        let MovedMemory {
            from,
            to,
            bytes,
            tgid,
            ..
        } = *memory;
        self.remove_range(tgid, to, bytes);
        let Some(pages) = self.pages.get_mut(&tgid) else {
            return Vec::new();
        };
        let range = from..from.saturating_add(bytes);
        let moved = take(pages, range, |_| true).into_iter();
        let moved = moved.map(|(address, page)| {
            let now = to.saturating_add(address - from);
            let page = Page {
                absent_since: None,
                ..page
            };
            pages.insert(now, page);
            let flag = if page.is_huge { IS_HUGE } else { 0 };
            MovedPage {
                tgid,
                from: address | flag,
                to: now | flag,
            }
        });
        moved.collect()
    }

    /// Takes the pages of a process away that begin in a range.
    fn remove_range(&mut self, tgid: u32, first: u64, bytes: u64) {
        let Some(pages) = self.pages.get_mut(&tgid) else {
            return;
        };
        let range = first..first.saturating_add(bytes);
        for (_, page) in take(pages, range, |_| true) {
            self.count -= 1;
            self.gone.extend(page.is_at_peak.then_some(page.sample));
        }
    }

    /// Whether a page is absent.
    pub(super) fn has_absent(&self) -> bool {
        let mut pages = self.pages.values().flat_map(BTreeMap::values);
        pages.any(|page| !page.is_resident())
    }

    /// Takes pages away that are absent since this moment or longer.
    pub(super) fn forget_absent(&mut self, since: Instant) {
        let is_forgotten = |page: &Page| page.absent_since.is_some_and(|it| it <= since);
        for pages in self.pages.values_mut() {
            for (_, page) in take(pages, .., is_forgotten) {
                self.count -= 1;
                self.gone.extend(page.is_at_peak.then_some(page.sample));
            }
        }
    }

    /// Takes a process away; returns the pages that it had.
    fn remove_process(&mut self, tgid: u32) -> Pages {
        let pages = self.pages.remove(&tgid).unwrap_or_default();
        self.count -= pages.len();
        let at_peak = pages.values().filter(|page| page.is_at_peak);
        self.gone.extend(at_peak.map(|page| page.sample));
        pages
    }

    /// The processes that have pages.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.pages.keys().copied()
    }

    /// Finds out which pages of a process are still resident.
    pub(super) fn look(&mut self, tgid: u32, now: Instant, is_resident: &Residency<'_>) {
        let pages = self.pages.get_mut(&tgid);
        for (address, page) in pages.into_iter().flatten() {
            match is_resident(*address) {
                Some(true) => page.absent_since = None,
                Some(false) => {
                    page.absent_since.get_or_insert(now);
                }
                None => {}
            }
        }
    }

    /// Makes what is resident the peak, if it is more than ever before.
    pub(super) fn note_peak(&mut self) {
        let values = self.resident().map(|page| page.sample.value);
        let bytes = values.fold(0, u64::saturating_add);
        if bytes <= self.peak_bytes {
            return;
        }
        self.peak_bytes = bytes;
        self.gone.clear();
        for page in self.pages.values_mut().flat_map(BTreeMap::values_mut) {
            page.is_at_peak = page.is_resident();
        }
    }

    fn resident(&self) -> impl Iterator<Item = &Page> {
        let pages = self.pages.values().flat_map(BTreeMap::values);
        pages.filter(|page| page.is_resident())
    }

    /// Samples of what is resident; where nothing runs any more, of what the last process had when it ended.
    pub(super) fn in_use(&self, kind: ProfileKind) -> impl Iterator<Item = Sample> {
        let last = self.pages.is_empty().then_some(&self.last);
        let last = last.into_iter().flat_map(BTreeMap::values);
        let last = last.filter(|page| page.is_resident());
        self.resident().chain(last).map(move |page| Sample {
            kind,
            ..page.sample
        })
    }

    /// Samples of what was resident at the peak.
    pub(super) fn at_peak(&self, kind: ProfileKind) -> impl Iterator<Item = Sample> {
        let pages = self.pages.values().flat_map(BTreeMap::values);
        let pages = pages.filter(|page| page.is_at_peak);
        let samples = pages.map(|page| page.sample);
        let samples = samples.chain(self.gone.iter().copied());
        samples.map(move |sample| Sample { kind, ..sample })
    }

    /// Samples for which there was no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

/// Takes some of the pages of a range.
fn take(
    pages: &mut Pages,
    range: impl RangeBounds<u64>,
    is_taken: impl Fn(&Page) -> bool,
) -> Vec<(u64, Page)> {
    let taken = pages.range(range).filter(|(_, page)| is_taken(page));
    let taken: Vec<_> = taken.map(|(address, page)| (*address, *page)).collect();
    for (address, _) in &taken {
        pages.remove(address);
    }
    taken
}

/// Where a page begins, and its bytes.
fn extent(page: u64) -> (u64, u64) {
    let page_bytes = page_size() as u64;
    let pages = if page & IS_HUGE == 0 {
        1
    } else {
        pages_of_huge(page_bytes)
    };
    (page & !IS_HUGE, pages * page_bytes)
}

#[cfg(test)]
mod tests;
