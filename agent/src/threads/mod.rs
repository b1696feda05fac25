//! Passes over all threads of the profiled processes, running or not: wall time.
//!
//! ```text
//! passes ─► pass ─┬─ sources            the BPF programs and their maps, or outside: `/proc`
//!                 ├─ known_thread       what is kept about each (balance)
//!                 ├─ process            memory (page_cache), interpreter, code, symbols
//!                 ├─ walker             stacks
//!                 ├─ reason             why it waits
//!                 ├─ traced_waits       sampled waits, where context switches are traced
//!                 ├─ gil                who holds the GIL meanwhile
//!                 ├─ locks              which lock it waits for
//!                 ├─ deadlocks          and who holds it
//!                 ├─ names
//!                 └─ batch ─► session   samples and what they refer to
//! unfinished      native stacks of samples whose code was not known yet (stack_copy), walked on when it is
//! core_dump       the threads of a core dump, once, by the same parts
//! ```
//!
//! Invariants: nothing runs in the profiled programs and none of them is stopped; what a thread did is
//! never guessed: a stack is proved to be one, or is left out and counted; a process that holds a read up
//! is left out, and all others are not.

mod balance;
mod batch;
mod code;
mod core_dump;
mod deadlocks;
mod gil;
mod gil_times;
mod known_thread;
mod locks;
mod names;
mod outside;
mod page_cache;
mod page_copy;
mod pass;
mod passes;
mod process;
mod process_locations;
pub mod reason;
mod settings;
mod shared;
mod snapshot;
mod snapshot_passes;
mod sources;
mod stack_copy;
mod status;
mod symbols;
mod taken_processor;
mod thread_states;
mod traced_waits;
mod unfinished;
mod walker;

pub use batch::{
    Batch, BlockedThread, KeptWaiting, LockWaitSample, PassTime, Rest, RestChanges, RunningThread,
    TracedTime,
};
pub use core_dump::{CoreThreads, core_threads};
pub use deadlocks::{DeadlockedThread, Deadlocks};
pub use gil_times::GilTimes;
pub use locks::LockNaming;
pub use outside::OutsideProcesses;
pub use passes::Passes;
pub use process_locations::{ProcessLocation, ProcessLocations};
pub use settings::{Reads, Settings, WaitRecords};
pub use snapshot::{Snapshot, SnapshotProgress, SnapshotThread};
pub use status::PassStatus;
pub use traced_waits::TracedWaits;
pub use unfinished::{StackRest, UnfinishedSender, UnfinishedStacks, UnfinishedTotals};
