//! Allocators that processes have instead of the C library's.

use agent_common::maps::AllocatorCode;
use aya::{
    Ebpf,
    maps::{HashMap, MapData},
};

use super::{error::Error, maps};

/// Key: process id. Value: [`AllocatorCode`]. Written by the agent, read by the BPF programs, which evict.
pub(super) const ALLOCATORS: &str = "ALLOCATORS";

/// The allocators, by process.
pub(super) struct Allocators {
    map: HashMap<MapData, u32, AllocatorCode>,
}

impl Allocators {
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, Error> {
        Ok(Self {
            map: maps::take(object, ALLOCATORS)?,
        })
    }

    /// Sets the allocator of a process. Where the map refuses that, what it maps for itself counts.
    pub(super) fn set(&mut self, tgid: u32, code: Option<AllocatorCode>) {
        let _ = match code {
            Some(code) => self.map.insert(tgid, code, 0),
            None => self.map.remove(&tgid),
        };
    }

    /// Has a process have the allocator of another one, of which it is a copy.
    pub(super) fn copy(&mut self, tgid: u32, original: u32) {
        if let Ok(code) = self.map.get(&original, 0) {
            self.set(tgid, Some(code));
        }
    }
}
