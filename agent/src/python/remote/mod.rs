//! Stacks of all threads of a process, read once through `/proc/PID/mem`, and the locks for which threads wait.
//!
//! This replaces the BPF programs: it drives the same walk within the same limits and writes the
//! same records, which are decoded by the same code.
//!
//! Invariants: the process is never stopped, so the stack of a running thread may be torn, and
//! [`ThreadStack::end`] is the status of its walk; every read has a limit.

mod class_flags;
mod code;
mod error;
mod instruction;
mod list;
pub mod locals;
mod lock;
mod memory;
mod name;
mod stack;
mod stop_the_world;
mod structure;
mod table;
mod target;
pub mod tasks;
mod thread_stack;

use agent_common::memory::UserMemory;

pub use error::{Error, ThreadListError};
pub(crate) use list::{threads as thread_states, threads_until_error as thread_states_until_error};
pub(crate) use lock::{EnteredLock, Lock, LockReader, LockWord, is_lock_module, word_of_lock};
pub(crate) use name::read_text as thread_name_text;
pub(crate) use stop_the_world::{StopWait, find_request, requester};
pub use target::Target;
pub use thread_stack::{Frame, Function, Run, ThreadStack};

use super::Interpreter;
use crate::process::Process;

/// Attempts to read the list of threads, which may change while it is read.
const ATTEMPTS: usize = 5;

/// Reads the stacks of all threads of a process, the newest interpreter and thread first.
///
/// # Errors
///
/// When access to its memory is denied, or when the list of its threads cannot be read.
pub fn threads(process: &Process, interpreter: &Interpreter) -> Result<Vec<ThreadStack>, Error> {
    let memory = process.memory()?;
    let pid = process.pid();
    read(memory, &interpreter.into()).map_err(|why| match why {
        ThreadListError::List(address) => Error::List { pid, address },
        ThreadListError::TooManyThreads => Error::TooManyThreads { pid },
    })
}

/// Reads the stacks of all threads from any memory, as [`threads`] does.
///
/// # Errors
///
/// When the list of threads cannot be read.
pub fn read<M: UserMemory>(
    memory: &M,
    target: &Target,
) -> Result<Vec<ThreadStack>, ThreadListError> {
    let list = read_list(memory, target)?;
    let mut reader = stack::Reader::new(memory, target);
    Ok(list
        .into_iter()
        .map(|(thread_id, states)| reader.read(thread_id, states))
        .collect())
}

/// Reads the list of threads, several times if it changes.
fn read_list<M: UserMemory>(
    memory: &M,
    target: &Target,
) -> Result<Vec<list::ThreadStates>, ThreadListError> {
    let mut list = list::threads(memory, target);
    for _ in 1..ATTEMPTS {
        if list.is_ok() {
            break;
        }
        list = list::threads(memory, target);
    }
    list
}
