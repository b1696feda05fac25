//! The code objects of a process, for walks in the agent: their symbols, and the records that name them.
//!
//! Invariants: what a process has read is bounded per walk and per second, as in the BPF programs; a
//! cached symbol is compared with the code object at its address as often as it is there.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use agent_common::{
    layout::Layout,
    limits::{
        DESCRIPTION_PERIOD_NS, LINE_TABLE_PIECES, MAX_DESCRIBED_BYTES, MAX_PROCESS_DESCRIBED_BYTES,
    },
    maps::{CachedCode, CodeIdentity, ProcessState},
    memory::{Fault, UserAddr, UserMemory},
    python::{
        CodeObjectRecord, CodeSymbol, PythonStack, Revalidation, SymbolLookup, read_identity,
        trusted_since,
    },
    scratch::Scratch,
};

use super::batch::Batch;
use crate::bpf::monotonic_ns;

/// Most code objects of a process that are cached.
const MAX_KNOWN: usize = 16 << 10;

/// The code objects of a process.
#[derive(Debug, Default)]
pub(super) struct KnownCode {
    known: HashMap<UserAddr, CachedCode>,
    /// When one was last new, and when one was last found in the place of another, in nanoseconds of the
    /// monotonic clock.
    new_code_ns: u64,
    reused_ns: u64,
    budget: Budget,
}

/// Bytes of code objects that may be read.
#[derive(Debug)]
struct Budget {
    since: Instant,
    bytes: u32,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Of a process that runs.
    InPeriod,
    /// Of memory that is read once.
    InAll(u32),
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            bytes: 0,
            limit: Limit::InPeriod,
        }
    }
}

impl Budget {
    /// Whether any are left, for the process and for a walk that has read so many.
    fn has_some(&mut self, of_walk: u32) -> bool {
        if let Limit::InAll(most) = self.limit {
            return self.bytes < most;
        }
        if self.since.elapsed() >= Duration::from_nanos(DESCRIPTION_PERIOD_NS) {
            *self = Self::default();
        }
        of_walk < MAX_DESCRIBED_BYTES && self.bytes < MAX_PROCESS_DESCRIBED_BYTES
    }
}

impl SymbolLookup for KnownCode {
    fn symbol<M: UserMemory>(
        &mut self,
        memory: &M,
        scratch: &mut Scratch,
        layout: &Layout,
        code: UserAddr,
    ) -> Option<CodeSymbol> {
        let known = self.known.get_mut(&code)?;
        let now_ns = monotonic_ns();
        let trusted_since_ns = trusted_since(now_ns, self.new_code_ns, self.reused_ns);
        // The process runs on: another code object may be there by now.
        match known.revalidate(memory, scratch, layout, code, now_ns, trusted_since_ns) {
            Revalidation::NotDue | Revalidation::Valid => Some(known.code_symbol()),
            Revalidation::Replaced => {
                self.reused_ns = now_ns;
                self.known.remove(&code);
                None
            }
        }
    }
}

/// Reads code objects and writes their records.
pub(super) struct Describer<'a, M> {
    pub(super) memory: &'a M,
    pub(super) scratch: &'a mut Scratch,
    pub(super) layout: &'a Layout,
    pub(super) record: &'a mut CodeObjectRecord,
    /// Start value of the hashes.
    pub(super) seed: u64,
    pub(super) batch: &'a mut Batch,
}

impl<M: UserMemory> Describer<'_, M> {
    /// Describes the code objects of a stack that are new. One that cannot be read stays without a name.
    pub(super) fn describe(&mut self, stack: &PythonStack, code: &mut KnownCode) {
        if !stack.has_unresolved() {
            return;
        }
        let mut of_walk = 0;
        for nth in 0..u32::from(stack.shape().frame_count) {
            let Some(address) = stack.unresolved(nth) else {
                continue;
            };
            if !code.budget.has_some(of_walk) {
                break;
            }
            if let Ok(bytes) = self.describe_one(address, code) {
                of_walk = of_walk.saturating_add(bytes);
                code.budget.bytes = code.budget.bytes.saturating_add(bytes);
            }
        }
    }

    /// Describes one, unless it is known; returns how many bytes were read.
    fn describe_one(&mut self, code: UserAddr, known: &mut KnownCode) -> Result<u32, Fault> {
        let (memory, layout) = (self.memory, self.layout);
        let identity = read_identity(memory, self.scratch, layout, code)?;
        if known
            .known
            .get(&code)
            .is_some_and(|it| it.identity == identity)
        {
            return Ok(0);
        }
        self.record.read(memory, self.scratch, layout, &identity)?;
        let hash = self.record.finish_record(self.seed);
        let mut bytes = self.record.head.header.bytes;
        if self.batch.is_new(hash) {
            self.batch.add_reference(self.record.record());
            let Ok(sent) = self.send_line_table(&identity) else {
                // With all of it next time.
                self.batch.forget(hash);
                return Err(Fault);
            };
            bytes = bytes.saturating_add(sent);
        }
        if known.known.len() >= MAX_KNOWN {
            known.known.clear();
        }
        let now_ns = monotonic_ns();
        known.new_code_ns = now_ns;
        known
            .known
            .insert(code, CachedCode::new(hash, identity, now_ns));
        Ok(bytes)
    }

    /// Writes the rest of a line table, piece by piece; returns how many bytes were read.
    fn send_line_table(&mut self, identity: &CodeIdentity) -> Result<u32, Fault> {
        let table = UserAddr(identity.line_table).field(self.layout.text.bytes_data);
        let mut start = agent_common::limits::LINE_TABLE_PIECE_BYTES as u64;
        let mut read = 0;
        for _ in 0..LINE_TABLE_PIECES {
            let from = UserAddr(table.0.wrapping_add(start));
            let position = u32::try_from(start).map_err(|_| Fault)?;
            let bytes = self
                .record
                .read_line_table_piece(self.memory, from, position)?;
            if bytes == 0 {
                break;
            }
            self.batch.add_reference(self.record.record());
            read += bytes;
            start += agent_common::limits::LINE_TABLE_PIECE_BYTES as u64;
        }
        Ok(read)
    }
}

impl KnownCode {
    /// Those of memory that is read once, of which so many bytes may be read in all.
    pub(super) fn of_at_most(bytes: u32) -> Self {
        let mut known = Self::default();
        known.budget.limit = Limit::InAll(bytes);
        known
    }

    /// The symbol of a code object that was described.
    pub(super) fn find(&self, code: UserAddr) -> Option<CodeSymbol> {
        self.known.get(&code).map(CachedCode::code_symbol)
    }

    /// Takes over what the BPF programs have noted: when a code object was last new, and when one was last
    /// found in the place of another.
    pub(super) fn note(&mut self, state: &ProcessState) {
        self.new_code_ns = self.new_code_ns.max(state.new_code_ns);
        self.reused_ns = self.reused_ns.max(state.reused_ns);
    }

    /// Forgets all, so that records are written again.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}
