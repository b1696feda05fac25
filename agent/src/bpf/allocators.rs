//! Allocators that processes have instead of the C library's, or that announce what they allocate.

use std::collections::HashSet;

use agent_common::maps::AllocatorCode;
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData},
};

use super::{error::Error, maps};

/// Key: process id. Value: [`AllocatorCode`]. Written by the agent, read by the BPF programs, which evict.
pub(super) const ALLOCATORS: &str = "ALLOCATORS";

/// Value: how many processes announce allocations. Written by the agent, read by the BPF programs.
const ANNOUNCERS: &str = "ANNOUNCERS";

/// The allocators, by process.
pub(super) struct Allocators {
    map: HashMap<MapData, u32, AllocatorCode>,
    /// The processes that announce allocations.
    announcers: HashSet<u32>,
    announcer_count: Array<MapData, u32>,
    takes_announced: bool,
}

impl Allocators {
    /// `takes_announced` says whether allocations can be recorded that programs announce.
    pub(super) fn take(object: &mut Ebpf, takes_announced: bool) -> Result<Self, Error> {
        Ok(Self {
            map: maps::take(object, ALLOCATORS)?,
            announcers: HashSet::new(),
            announcer_count: maps::take(object, ANNOUNCERS)?,
            takes_announced,
        })
    }

    /// Whether allocations can be recorded that programs announce.
    pub(super) fn take_announced(&self) -> bool {
        self.takes_announced
    }

    /// Sets the allocators of a process. Where the map refuses that, or evicts them, what they map for themselves
    /// counts, and what they announce may count twice.
    pub(super) fn set(&mut self, tgid: u32, code: Option<AllocatorCode>) {
        let _ = match code {
            Some(code) => self.map.insert(tgid, code, 0),
            None => self.map.remove(&tgid),
        };
        let has_changed = match code {
            Some(code) if code.announcing != AllocatorCode::default().announcing => {
                self.announcers.insert(tgid)
            }
            _ => self.announcers.remove(&tgid),
        };
        if has_changed {
            let announcers = u32::try_from(self.announcers.len()).unwrap_or(u32::MAX);
            let _ = self.announcer_count.set(0, announcers, 0);
        }
    }

    /// Has a process have the allocators of another one, of which it is a copy.
    pub(super) fn copy(&mut self, tgid: u32, original: u32) {
        if let Ok(code) = self.map.get(&original, 0) {
            self.set(tgid, Some(code));
        }
    }
}
