//! Comparison of the known processes with those that run, after events of processes were lost.
//!
//! Without it a process whose start was lost has no name until its mappings change, one whose exec was
//! lost keeps the name of the program before, and one whose end was lost stays for ever.

use std::{collections::HashMap, path::Path, sync::atomic::Ordering, time::Instant};

use agent_common::{
    counter::Counter,
    maps::KERNEL_THREADS,
    record::{Header, ProcessEvent, ProcessEventKind, RecordKind},
};
use anyhow::Result;
use tracing::info;

use super::{Session, observer::Observer};
use crate::{bpf::monotonic_ns, process};

impl Session {
    /// Compares the known processes of a host with those that run, if events were lost since that was
    /// last done.
    pub(super) fn rescan_after_loss<O: Observer>(&mut self, observer: &mut O) -> Result<()> {
        if !self.is_host {
            return Ok(());
        }
        let dropped = self.drain.status().lost_events.load(Ordering::Relaxed);
        let lost = self.bpf.counter(Counter::LOST_PROCESS_EVENTS)? + dropped;
        if !self.rescan.is_due(lost, Instant::now()) {
            return Ok(());
        }
        info!(
            lost,
            "events of processes were lost: all processes are compared"
        );
        let running: HashMap<_, _> = process::descendants(&[0])
            .into_iter()
            .map(|descendant| (descendant.pid, descendant))
            .collect();
        let ended: Vec<_> = self
            .discovery
            .known()
            .filter(|pid| !running.contains_key(pid) && *pid != KERNEL_THREADS)
            // There may be more of them than are listed.
            .filter(|pid| !Path::new(&format!("/proc/{pid}")).exists())
            .collect();
        let mut result = Ok(());
        for pid in ended {
            let exited = event(ProcessEventKind::EXITED, pid);
            result = result.and(self.on_event(&exited, observer));
        }
        for (pid, descendant) in running {
            if !self.discovery.is_known(pid) {
                result = result.and(self.add_descendant(descendant));
            } else if !self.discovery.is_awaited(pid) && !self.bpf.is_present(pid)? {
                let executed = event(ProcessEventKind::EXECUTED, pid);
                result = result.and(self.on_event(&executed, observer));
            }
        }
        result
    }
}

/// An event in place of one that was lost.
pub(super) fn event(kind: ProcessEventKind, tgid: u32) -> ProcessEvent {
    ProcessEvent {
        header: Header {
            kind: RecordKind::PROCESS_EVENT,
            reserved: 0,
            bytes: u32::try_from(size_of::<ProcessEvent>()).unwrap_or(0),
        },
        time_ns: monotonic_ns(),
        tgid,
        parent: 0,
        kind,
        reserved: 0,
    }
}
