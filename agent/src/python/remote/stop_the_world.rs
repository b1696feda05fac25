//! Which thread of a free-threaded interpreter has stopped the others, or is about to.
//!
//! Where there is no GIL, a thread that collects garbage, forks or changes a class stops the world: it requests that in
//! `_stoptheworld_state`, a part of the state of its interpreter, and the others park until it is done. What they park for
//! says why they wait:
//!
//! | parked for | the thread |
//! |---|---|
//! | `state` of its own thread state | is stopped |
//! | `stop_event` of the request | has requested it, and waits until the others are stopped |
//! | `mutex` of the request | is to wait with a request of its own |
//!
//! The fields of the request have the same offsets in 3.13 to 3.15, but it is elsewhere in each version: in the state of an
//! interpreter it is looked for, while there is a request.

use agent_common::{
    layout::Layout,
    maps::ThreadState,
    memory::{UserAddr, UserMemory},
};

/// Bytes of the state of an interpreter in which the request is looked for; it has less in all versions.
const MAX_INTERPRETER_BYTES: u64 = 384 << 10;

/// `stop_event` and `requester` of `_stoptheworld_state`.
const STOP_EVENT: u16 = 4;
const REQUESTER: u16 = 16;

/// What the bytes of its first word can be while there is a request of one interpreter: `mutex` with nobody or somebody
/// parked, `requested`, `world_stopped`, `is_global` and `stop_event`, none of which has more than two bits.
const FIRST_WORD: u64 = 0x03_00_01_01_03;

/// Those of them that are set: of `mutex` and `requested`.
const REQUESTED: u64 = 0x01_01;

/// Most threads that can be counted in a request, which are still to stop.
const MAX_COUNT: u64 = 1 << 20;

/// The wait of a thread while the world is stopped or being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopWait {
    /// The thread state with which it waits.
    pub state: ThreadState,
    /// The address of the request, if it waits for that.
    pub request: Option<UserAddr>,
}

impl StopWait {
    /// That of a thread with these states that is parked for an address, if it is one.
    pub fn of<M: UserMemory>(
        memory: &M,
        layout: &Layout,
        states: &[ThreadState],
        word: u64,
    ) -> Option<Self> {
        if !layout.is_free_threaded() {
            return None;
        }
        states.iter().find_map(|state| {
            let attached = state.address.field(layout.thread.attached);
            let is_at = |request: UserAddr, is_own: bool| {
                let requester = requester(memory, layout, request, state.interpreter)?;
                let is_such = (requester == state.address) == is_own;
                is_such.then_some(request)
            };
            let request = if word == attached.0 {
                None
            } else if word.is_multiple_of(8) {
                Some(is_at(UserAddr(word), false)?)
            } else {
                Some(is_at(UserAddr(word.wrapping_sub(STOP_EVENT.into())), true)?)
            };
            Some(Self {
                state: *state,
                request,
            })
        })
    }
}

impl StopWait {
    /// `pthread_self()` of the thread that has stopped this one, by the thread state that has made the request; [`None`] of
    /// the thread that stops the others itself.
    pub fn stopper<M: UserMemory>(
        self,
        memory: &M,
        layout: &Layout,
        requester: UserAddr,
    ) -> Option<u64> {
        if requester == self.state.address {
            return None;
        }
        memory.word(requester.field(layout.thread.thread_id)).ok()
    }
}

/// The thread state of an interpreter's thread that has made a request, if one is there.
pub fn requester<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    request: UserAddr,
    interpreter: UserAddr,
) -> Option<UserAddr> {
    if !request.could_be_structure() {
        return None;
    }
    let first = memory.word(request).ok()?;
    let count = memory.word(request.field(8)).ok()?;
    let requester = UserAddr(memory.word(request.field(REQUESTER)).ok()?);
    let is_request = first & !FIRST_WORD == 0
        && first & REQUESTED == REQUESTED
        && count < MAX_COUNT
        && requester.could_be_structure();
    let of = || memory.word(requester.field(layout.thread.interpreter));
    (is_request && of() == Ok(interpreter.0)).then_some(requester)
}

/// The address of the request of an interpreter, while there is one.
pub fn find_request<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    interpreter: UserAddr,
) -> Option<UserAddr> {
    let addresses = (0..MAX_INTERPRETER_BYTES).step_by(8);
    let addresses = addresses.map(|offset| UserAddr(interpreter.0.wrapping_add(offset)));
    addresses
        .filter(|address| {
            let first = memory.word(*address);
            first.is_ok_and(|first| first & !FIRST_WORD == 0 && first & REQUESTED == REQUESTED)
        })
        .find(|address| requester(memory, layout, *address, interpreter).is_some())
}

#[cfg(test)]
mod tests {
    use agent_common::memory::Fault;

    use super::*;
    use crate::python::versions;

    const INTERPRETER: UserAddr = UserAddr(0x10_0000);
    const REQUEST: UserAddr = UserAddr(0x10_8ff0);
    const OWN: UserAddr = UserAddr(0x2000);
    const OTHER: UserAddr = UserAddr(0x3000);

    /// A process with two threads, in which one has requested to stop the other.
    struct Stopped {
        requester: UserAddr,
        first: u64,
        layout: Layout,
    }

    impl UserMemory for Stopped {
        unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
            let field = self.layout.thread.interpreter;
            let word = if address == REQUEST {
                self.first
            } else if address == REQUEST.field(REQUESTER) {
                self.requester.0
            } else if address == OWN.field(field) || address == OTHER.field(field) {
                INTERPRETER.0
            } else {
                0
            };
            assert_eq!(bytes, 8);
            // SAFETY: the caller's.
            unsafe { into.cast::<u64>().write_unaligned(word) };
            Ok(())
        }
    }

    fn stopped(requester: UserAddr) -> Stopped {
        let mut layouts = versions::SUPPORTED.iter().rev();
        Stopped {
            requester,
            first: 0x01_03,
            layout: layouts.find_map(|series| series.free_threaded).unwrap(),
        }
    }

    const STATE: ThreadState = ThreadState {
        address: OWN,
        interpreter: INTERPRETER,
    };

    fn wait(memory: &Stopped, word: u64) -> Option<StopWait> {
        StopWait::of(memory, &memory.layout, &[STATE], word)
    }

    fn waiting(request: Option<UserAddr>) -> StopWait {
        StopWait {
            state: STATE,
            request,
        }
    }

    #[test]
    fn who_stops_the_world_and_who_is_stopped_wait_for_that() {
        let (by_other, by_own) = (stopped(OTHER), stopped(OWN));
        let state = OWN.field(by_other.layout.thread.attached).0;
        assert_eq!(wait(&by_other, state), Some(waiting(None)));
        assert_eq!(wait(&by_other, REQUEST.0), Some(waiting(Some(REQUEST))));
        assert_eq!(wait(&by_own, REQUEST.0 + 4), Some(waiting(Some(REQUEST))));
        // Its own request is no reason to wait for the mutex, nor is that of another one to wait for the event.
        assert_eq!(wait(&by_own, REQUEST.0), None);
        assert_eq!(wait(&by_other, REQUEST.0 + 4), None);
        assert_eq!(wait(&by_other, state + 8), None);
        let with_gil = Stopped {
            layout: versions::SUPPORTED[0].layout,
            ..stopped(OTHER)
        };
        assert_eq!(
            wait(&with_gil, OWN.field(with_gil.layout.thread.attached).0),
            None
        );
    }

    #[test]
    fn a_request_is_found_while_there_is_one() {
        let find = |memory: &Stopped| find_request(memory, &memory.layout, INTERPRETER);
        assert_eq!(find(&stopped(OTHER)), Some(REQUEST));
        for first in [0x00_03, 0x01_00, 0x04_01_03, 0x01_07, u64::MAX] {
            let memory = Stopped {
                first,
                ..stopped(OTHER)
            };
            assert_eq!(find(&memory), None, "{first:#x}");
        }
        // A thread of another interpreter.
        assert_eq!(find(&stopped(UserAddr(0x4000))), None);
        assert_eq!(find(&stopped(UserAddr(0))), None);
    }
}
