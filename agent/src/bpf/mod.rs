//! The BPF programs: loading, attaching, their maps and their records.
//!
//! ```text
//! handle ─┬─ sampling_events   perf events (events) on the online CPUs
//!         ├─ process_map       tracked processes and the layouts of their interpreters
//!         ├─ mappings          executable mappings of processes
//!         ├─ unwind_tables     rules and tables of the native walk
//!         ├─ thread_visits     passes over all threads
//!         │  ├─ loops          of programs over them
//!         │  └─ iterators      of the kernel, where programs cannot loop
//!         ├─ pass_clocks       samples of threads that run at a pass
//!         ├─ walk_maps         what a walk in the agent looks up
//!         ├─ lock_waits        who ends waits for locks
//!         ├─ switches          tracing of context switches
//!         ├─ sampled_pages     pages that grow, and moves of them
//!         ├─ probes            the probes in programs
//!         ├─ allocators        what processes have instead of the C library's allocator
//!         ├─ rights            the capability to open perf events
//!         ├─ object            the maps and settings, by what is profiled
//!         │  ├─ loader         aya's loader, without BTF
//!         │  ├─ kernel_functions  those that the programs call
//!         │  └─ map_sizes      entries of the maps
//!         ├─ ring              records
//!         └─ counters
//! ```
//!
//! Invariants: nothing else in the crate uses aya; process ids are those of the initial PID
//! namespace.

mod allocators;
mod btf;
mod control;
mod counters;
mod error;
mod events;
mod handle;
mod kernel_functions;
mod loader;
mod lock_waits;
mod map_sizes;
mod mappings;
mod maps;
mod object;
mod optional_rights;
mod pass_clocks;
mod probes;
mod process_map;
mod quotas;
mod records;
mod regions;
mod requirements;
mod rights;
mod ring;
mod sampled_pages;
mod sampling_events;
mod slots;
mod switches;
mod system_call;
mod table_loader;
mod thread_visits;
mod tracepoints;
mod unwind_tables;
mod walk_maps;

pub use counters::Counters;
pub use error::Error;
pub use handle::{Bpf, PassMaps, monotonic_ns};
pub use lock_waits::LockWaits;
pub use object::{LoadOptions, Visits};
pub use optional_rights::missing_rights;
pub use pass_clocks::PassClocks;
pub use probes::{
    AllocationCounts, AllocationProbes, Probes, RaiseCounts, RaiseProbe, UprobeEvent,
};
pub use process_map::InterpreterLocation;
pub use records::Records;
pub use requirements::{Requirement, Unmet, check as check_requirements, requirements};
pub use rights::{give_up as give_up_sys_admin, lower as lower_sys_admin};
pub use ring::Ring;
pub use sampled_pages::SampledPages;
pub use table_loader::{LoadedTables, NewTable, TableLoader};
pub use thread_visits::{ThreadVisits, Visit, Visited};
pub use walk_maps::{Rows, WalkMaps};
