//! The stacks of all threads of a process, read once from the outside.
//!
//! This takes the place of the kernel half: it drives the same walk, within the same limits, and
//! what it reads becomes the same records, which are decoded as those of the kernel half are.
//!
//! Invariants: the process is never stopped, so a thread that runs meanwhile may be seen at a
//! place between two others, and [`ThreadStack::end`] says where the walk of its frames ended;
//! nothing is read without a bound.

mod error;
mod list;
mod memory;
mod name;
mod stack;
mod target;
mod thread_stack;

use agent_common::memory::UserMemory;

pub use error::{Error, ThreadListError};
pub use target::Target;
pub use thread_stack::{Frame, Function, Run, ThreadStack};

use super::Interpreter;
use crate::process::Process;

/// How often the list of threads is read when it changes meanwhile.
const ATTEMPTS: usize = 5;

/// Reads the stacks of all threads of a process, newest interpreter and newest thread first.
///
/// # Errors
///
/// When its memory may not be read, or when the list of its threads cannot be followed.
pub fn threads(process: &Process, interpreter: &Interpreter) -> Result<Vec<ThreadStack>, Error> {
    let memory = process.memory()?;
    let pid = process.pid();
    read(memory, &interpreter.into()).map_err(|why| match why {
        ThreadListError::List(address) => Error::List { pid, address },
        ThreadListError::TooManyThreads => Error::TooManyThreads { pid },
    })
}

/// Reads the stacks of all threads in a memory, as [`threads`] does.
///
/// # Errors
///
/// When the list of threads cannot be followed.
pub fn read<M: UserMemory>(
    memory: &M,
    target: &Target,
) -> Result<Vec<ThreadStack>, ThreadListError> {
    let mut list = list::threads(memory, target);
    for _ in 1..ATTEMPTS {
        if list.is_ok() {
            break;
        }
        list = list::threads(memory, target);
    }
    let mut reader = stack::Reader::new(memory, target);
    Ok(list?
        .into_iter()
        .map(|(thread_id, states)| reader.read(thread_id, states))
        .collect())
}
