//! The executable mappings of processes: the map `MAPPINGS`, in which each process has a region of
//! entries, sorted by address. Its entry in the map of processes refers to the region.

use std::{collections::HashMap, sync::Arc, time::Instant};

use agent_common::maps::{Mapping, TrackedProcess};
use aya::{
    Ebpf,
    maps::{Array, MapData},
};

use super::{
    error::{Error, map_error},
    maps,
    process_map::ProcessMap,
    quotas::Quotas,
    regions::{Region, Regions},
};

/// Key: index. Value: [`Mapping`]. Written by the agent, read by the BPF programs. A process that
/// finds no room has no native frames; no user takes all of it.
pub(super) const MAPPINGS: &str = "MAPPINGS";

/// The mappings of all processes.
pub(super) struct MappingMap {
    map: Array<MapData, Mapping>,
    regions: Regions,
    /// The regions of processes; a forked process shares its parent's.
    of_processes: HashMap<u32, Arc<OwnedRegion>>,
    /// [`None`] where only one program is profiled.
    quotas: Option<Quotas>,
    epoch: u64,
}

/// A region, and the user to whose quota it counts.
#[derive(Debug)]
struct OwnedRegion {
    region: Region,
    user: u32,
}

impl MappingMap {
    pub(super) fn take(object: &mut Ebpf, whole_host: bool) -> Result<Self, Error> {
        let map: Array<MapData, Mapping> = maps::take(object, MAPPINGS)?;
        Ok(Self {
            regions: Regions::new(map.len()),
            quotas: whole_host.then(|| Quotas::new(map.len())),
            map,
            of_processes: HashMap::new(),
            epoch: 0,
        })
    }

    /// Sets the mappings of a process of this user; [`false`] where they find no room, or no more of
    /// this user do.
    pub(super) fn set(
        &mut self,
        processes: &mut ProcessMap,
        tgid: u32,
        user: u32,
        mappings: &[Mapping],
    ) -> Result<bool, Error> {
        let count = u32::try_from(mappings.len()).unwrap_or(u32::MAX);
        let now = Instant::now();
        let region = match count {
            0 => None,
            count if !self.has_room(tgid, user, count) => None,
            count => self.regions.take(count, now),
        };
        if let Some(region) = region {
            for (index, mapping) in (region.first..).zip(mappings) {
                self.map
                    .set(index, mapping, 0)
                    .map_err(map_error("write", MAPPINGS))?;
            }
        }
        let present = region.unwrap_or(Region { first: 0, count: 0 });
        self.epoch += 1;
        let epoch = self.epoch;
        let is_tracked = processes.change(tgid, |process| TrackedProcess {
            first_mapping: present.first,
            mapping_count: present.count,
            mappings_epoch: epoch,
            ..process
        })?;
        let before = match region {
            Some(region) if is_tracked => {
                if let Some(quotas) = &mut self.quotas {
                    quotas.take(user, region.count);
                }
                let owned = Arc::new(OwnedRegion { region, user });
                self.of_processes.insert(tgid, owned)
            }
            Some(region) => {
                self.regions.give_back(region, now);
                None
            }
            None => self.of_processes.remove(&tgid),
        };
        self.give_back(before);
        Ok(region.is_some() || mappings.is_empty())
    }

    /// Whether a process of this user may have so many mappings in place of its present ones.
    fn has_room(&self, tgid: u32, user: u32, count: u32) -> bool {
        let present = self.of_processes.get(&tgid);
        let present = present.filter(|owned| owned.user == user);
        let more = count.saturating_sub(present.map_or(0, |owned| owned.region.count));
        let quotas = self.quotas.as_ref();
        quotas.is_none_or(|quotas| quotas.has_room(user, more))
    }

    /// Shares the region of `parent` with a forked process, as its entry in the map of processes,
    /// a copy, does already.
    pub(super) fn share(&mut self, tgid: u32, parent: u32) {
        if let Some(region) = self.of_processes.get(&parent) {
            let region = Arc::clone(region);
            let before = self.of_processes.insert(tgid, region);
            self.give_back(before);
        }
    }

    /// Gives back the region of a process.
    pub(super) fn remove(&mut self, tgid: u32) {
        let before = self.of_processes.remove(&tgid);
        self.give_back(before);
    }

    /// Gives back a region that no process uses any more.
    fn give_back(&mut self, region: Option<Arc<OwnedRegion>>) {
        if let Some(OwnedRegion { region, user }) = region.and_then(Arc::into_inner) {
            if let Some(quotas) = &mut self.quotas {
                quotas.give_back(user, region.count);
            }
            self.regions.give_back(region, Instant::now());
        }
    }
}
