//! The thread states of all interpreters of a process.

use std::collections::HashMap;

use agent_common::{
    limits::MAX_THREADS,
    maps::ThreadState,
    memory::{UserAddr, UserMemory},
};

use super::{Target, Unreadable};

/// A thread's `pthread_self()` and its states, that in the newest interpreter first.
pub(super) type Thread = (u64, Vec<ThreadState>);

/// All threads: those of the newest interpreter first, and of these the newest.
///
/// As in the search of the kernel half, a thread has one state in an interpreter; unlike there, it
/// may have any number of them in all.
pub(super) fn threads<M: UserMemory>(
    memory: &M,
    target: &Target,
) -> Result<Vec<Thread>, Unreadable> {
    let fields = &target.layout.thread;
    let mut threads: Vec<Thread> = Vec::new();
    let mut places = HashMap::new();
    for state in states(memory, target)? {
        let place = state.address.field(fields.thread_id);
        let thread_id = memory.word(place).map_err(|_| Unreadable::List(place))?;
        if thread_id == 0 {
            // It was made for a thread that has not begun to run.
            continue;
        }
        let place = *places.entry(thread_id).or_insert(threads.len());
        let Some((_, states)) = threads.get_mut(place) else {
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
    Ok(threads)
}

/// All thread states in the order of the lists.
fn states<M: UserMemory>(memory: &M, target: &Target) -> Result<Vec<ThreadState>, Unreadable> {
    let layout = &target.layout;
    let follow = |pointer: UserAddr| match memory.word(pointer).map(UserAddr) {
        Ok(to) if to.is_null() || to.could_be_structure() => Ok(to),
        _ => Err(Unreadable::List(pointer)),
    };
    let mut visited = 0;
    let mut visit = || {
        visited += 1;
        if visited > MAX_THREADS {
            return Err(Unreadable::TooManyThreads);
        }
        Ok(())
    };
    let mut found = Vec::new();
    let mut interpreter = follow(target.interpreters_head)?;
    while !interpreter.is_null() {
        visit()?;
        let mut address = follow(interpreter.field(layout.interpreter.threads_head))?;
        while !address.is_null() {
            visit()?;
            // A thread state that was freed meanwhile may belong to no interpreter.
            let owner = address.field(layout.thread.interpreter);
            if follow(owner)? != interpreter {
                return Err(Unreadable::List(owner));
            }
            found.push(ThreadState {
                address,
                interpreter,
            });
            address = follow(address.field(layout.thread.next))?;
        }
        interpreter = follow(interpreter.field(layout.interpreter.next))?;
    }
    Ok(found)
}
