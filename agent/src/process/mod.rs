//! A running process from outside: `comm`, executable, command line, environment, mappings, mapped
//! files, memory and control groups.
//!
//! Invariants: a [`Process`] is read through one open directory `/proc/PID`, so that a reused PID
//! never mixes two processes; an `exec` after it was opened is detected
//! ([`Process::is_same_program`]); no path leads out of the root directory of the process; only
//! regular files are opened for reading; every read has a limit.

mod attach;
pub mod cgroup;
mod command_line;
mod cpu_time;
mod descriptors;
mod environment;
mod error;
mod fault_in;
mod files;
pub mod fuse;
pub mod machine;
pub mod maps;
mod memory;
mod page_map;
mod path;
mod procfs;
mod reference;
mod script;
mod task;
mod task_files;
mod tree;

pub use attach::attach_hint;
pub use command_line::CommandLine;
pub use cpu_time::cpu_time;
pub use descriptors::Descriptors;
#[cfg(feature = "fuzzing")]
pub use environment::find as find_variables;
pub use error::{Error, OpenError};
pub use fault_in::fault_in;
pub use files::{FileIdentity, RegularFile, RootDirectory, open_on_host};
pub use memory::Memory;
pub use page_map::{PageMap, resident_pages};
pub use path::file_name;
pub use procfs::Process;
#[cfg(feature = "fuzzing")]
pub use procfs::{is_kernel_thread, numbers};
pub use task::{Scheduling, SchedulingPolicy, is_stopped, scheduling, thread_comm, thread_ids};
pub use task_files::{
    Runs, TaskFiles, TaskLook, last_run_ns, own_thread_id, scheduler_now_ns, task_ids,
};
#[cfg(feature = "fuzzing")]
pub use tree::parent;
pub use tree::{Descendant, descendants};
