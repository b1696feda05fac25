//! A process whose threads are visited: its memory, its interpreter, its code.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use agent_common::{
    layout::Layout,
    maps::{ThreadState, TrackedProcess},
    memory::UserAddr,
};

use super::{code::ProcessCode, page_cache::PageCache, symbols::KnownCode, walker::Interpreter};
use crate::{
    bpf::WalkMaps,
    process::Process,
    python::remote::{Target, thread_states},
};

/// Time after which the list of thread states is read again for threads that had none.
const LIST_AGAIN: Duration = Duration::from_secs(1);

/// A process whose threads are visited.
pub(super) struct VisitedProcess {
    pub(super) memory: PageCache,
    pub(super) code: ProcessCode,
    pub(super) symbols: KnownCode,
    pub(super) interpreter: Option<Interpreter>,
    /// What the maps said of it.
    tracked: TrackedProcess,
    /// Its thread states by `pthread_self()`, and when they were listed.
    states: HashMap<u64, Vec<ThreadState>>,
    listed: Option<Instant>,
    /// The last pass that visited a thread of it.
    pub(super) pass: u64,
}

impl VisitedProcess {
    /// Opens a process; [`None`] where it has ended, or nothing is known about it yet.
    pub(super) fn open(tgid: u32, maps: &WalkMaps) -> Option<Self> {
        let mut process = Self {
            memory: PageCache::new(Process::open(tgid).ok()?),
            code: ProcessCode::default(),
            symbols: KnownCode::default(),
            interpreter: None,
            tracked: TrackedProcess::default(),
            states: HashMap::new(),
            listed: None,
            pass: 0,
        };
        process.update(tgid, maps).then_some(process)
    }

    /// Takes over what the maps say of the process; [`false`] where it runs another program than when
    /// it was opened.
    pub(super) fn update(&mut self, tgid: u32, maps: &WalkMaps) -> bool {
        if !self.memory.is_alive() {
            return false;
        }
        let Some(tracked) = maps.process(tgid) else {
            return false;
        };
        self.memory.clear();
        self.code.update(maps, &tracked);
        if tracked == self.tracked {
            return true;
        }
        let is_same_interpreter = tracked.interpreters_head == self.tracked.interpreters_head
            && tracked.layout == self.tracked.layout
            && tracked.gil_holder == self.tracked.gil_holder;
        if !is_same_interpreter {
            self.interpreter = interpreter(&tracked, maps.layout(tracked.layout));
            self.symbols.clear();
            self.states.clear();
            self.listed = None;
        }
        self.tracked = tracked;
        true
    }

    /// `pthread_self()` of a thread with this thread pointer.
    pub(super) fn thread_id(&self, thread_pointer: u64) -> u64 {
        thread_pointer.wrapping_sub(self.tracked.thread_pointer_distance)
    }

    /// The states of a thread, the newest interpreter first. `is_stale`: those that were returned before
    /// are no longer there.
    pub(super) fn states(&mut self, thread_id: u64, is_stale: bool) -> &[ThreadState] {
        let Some(interpreter) = &self.interpreter else {
            return &[];
        };
        let is_missing = !self.states.contains_key(&thread_id);
        let is_due = self.listed.is_none_or(|at| at.elapsed() >= LIST_AGAIN);
        if is_stale || is_missing && is_due {
            let target = Target {
                interpreters_head: interpreter.head,
                gil_holder: None,
                layout: interpreter.layout,
            };
            if let Ok(states) = thread_states(&self.memory, &target) {
                self.states = states.into_iter().collect();
            }
            self.listed = Some(Instant::now());
        }
        self.states.get(&thread_id).map_or(&[], Vec::as_slice)
    }
}

fn interpreter(tracked: &TrackedProcess, layout: Option<Layout>) -> Option<Interpreter> {
    if tracked.interpreters_head == 0 {
        return None;
    }
    Some(Interpreter {
        head: UserAddr(tracked.interpreters_head),
        gil_holder: UserAddr(tracked.gil_holder),
        layout: layout?,
    })
}
