//! Threads that wait for locks, and the program that records who ends their waits.

use agent_common::maps::LockWait;
use aya::{
    Ebpf,
    maps::{HashMap, MapData},
};

use super::{error::Error, maps, tracepoints::attach};

/// Key: thread id. Value: [`LockWait`]. Written by the agent, read and removed by the BPF program.
pub(super) const LOCK_WAITS: &str = "LOCK_WAITS";

/// The program, and its tracepoint.
const ON_WAKING: &str = "on_waking";
const WAKING: &str = "sched_waking";

/// Waits for locks whose ends are recorded.
pub struct LockWaits {
    waits: HashMap<MapData, u32, LockWait>,
}

impl LockWaits {
    /// Loads the program, which runs each time that a thread of the machine is woken.
    pub(super) fn load(object: &mut Ebpf) -> Result<Self, Error> {
        let waits = maps::take(object, LOCK_WAITS)?;
        attach(object, ON_WAKING, WAKING)?;
        Ok(Self { waits })
    }

    /// Has the end of a wait recorded; [`false`] where there is no room for it.
    pub fn note(&mut self, tid: u32, wait: LockWait) -> bool {
        self.waits.insert(tid, wait, 0).is_ok()
    }

    /// Has the end of a wait not recorded, if it was not yet.
    pub fn forget(&mut self, tid: u32) {
        // It may have ended.
        let _ = self.waits.remove(&tid);
    }
}
