//! The thread states of all interpreters of a process.

use std::collections::HashMap;

use agent_common::{
    limits::MAX_THREADS,
    maps::ThreadState,
    memory::{UserAddr, UserMemory},
};

use super::{error::ThreadListError, target::Target};

/// A thread's `pthread_self()` and its thread states, the newest interpreter first.
pub(crate) type ThreadStates = (u64, Vec<ThreadState>);

/// All threads, the newest interpreter and the newest thread first.
///
/// As in the search of the BPF programs, a thread has one state in an interpreter; here the number
/// of interpreters with a state of the thread has no limit.
pub(crate) fn threads<M: UserMemory>(
    memory: &M,
    target: &Target,
) -> Result<Vec<ThreadStates>, ThreadListError> {
    let (threads, error) = threads_until_error(memory, target);
    error.map_or(Ok(threads), Err)
}

/// The same, and those before an error, if there is one.
pub(crate) fn threads_until_error<M: UserMemory>(
    memory: &M,
    target: &Target,
) -> (Vec<ThreadStates>, Option<ThreadListError>) {
    let fields = &target.layout.thread;
    let mut threads: Vec<ThreadStates> = Vec::new();
    let mut indices = HashMap::new();
    let mut found = Vec::new();
    let mut error = states(memory, target, &mut found).err();
    for state in found {
        let pointer = state.address.field(fields.thread_id);
        let Ok(thread_id) = memory.word(pointer) else {
            error.get_or_insert(ThreadListError::List(pointer));
            break;
        };
        if thread_id == 0 {
            // The state of a thread that has not started yet.
            continue;
        }
        let index = *indices.entry(thread_id).or_insert(threads.len());
        let Some((_, states)) = threads.get_mut(index) else {
            threads.push((thread_id, vec![state]));
            continue;
        };
        if states
            .last()
            .is_none_or(|last| last.interpreter != state.interpreter)
        {
            states.push(state);
        }
    }
    (threads, error)
}

/// Adds all thread states in the order of the interpreters' lists.
fn states<M: UserMemory>(
    memory: &M,
    target: &Target,
    found: &mut Vec<ThreadState>,
) -> Result<(), ThreadListError> {
    let layout = &target.layout;
    let follow = |pointer: UserAddr| match memory.word(pointer).map(UserAddr) {
        Ok(to) if to.is_null() || to.could_be_structure() => Ok(to),
        _ => Err(ThreadListError::List(pointer)),
    };
    let mut visited = 0;
    let mut visit = || {
        visited += 1;
        if visited > MAX_THREADS {
            return Err(ThreadListError::TooManyThreads);
        }
        Ok(())
    };
    let mut interpreter = follow(target.interpreters_head)?;
    while !interpreter.is_null() {
        visit()?;
        let mut address = follow(interpreter.field(layout.interpreter.threads_head))?;
        while !address.is_null() {
            visit()?;
            // A thread state freed meanwhile may have another value here.
            let owner = address.field(layout.thread.interpreter);
            if follow(owner)? != interpreter {
                return Err(ThreadListError::List(owner));
            }
            found.push(ThreadState {
                address,
                interpreter,
            });
            address = follow(address.field(layout.thread.next))?;
        }
        interpreter = follow(interpreter.field(layout.interpreter.next))?;
    }
    Ok(())
}
