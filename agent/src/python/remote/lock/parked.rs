//! For what a thread is parked: the interpreter's own way to wait, from 3.13 on.
//!
//! A parked thread waits for a semaphore on its own stack, and just before that is the address for which it is parked
//! (`struct wait_entry` of `Python/parking_lot.c`): the word of a lock, `ob_mutex` of an object of a free-threaded build for
//! whose critical section the thread waits, or what [`stop_the_world`](super::super::stop_the_world) is about.

use agent_common::{
    layout::{InstanceStyle, Layout},
    memory::{UserAddr, UserMemory},
};

/// Bytes above the stack pointer in which a word of the waiting function itself can be.
const OWN_STACK_BYTES: u64 = 4096;

/// The bit of a parked thread in a lock, and the state of a thread that is stopped (`_Py_THREAD_SUSPENDED`).
const HAS_PARKED: u64 = 2;

/// `ob_mutex` of an object in a free-threaded build.
const OBJECT_MUTEX: u64 = 10;

/// The word for which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWord {
    /// That of a lock.
    OfLock(u64),
    /// One on the thread's own stack, where it is for this wait only: of a condition variable of a C function, or with musl
    /// of any. For which lock the thread waits is not known.
    OnOwnStack(u64),
}

impl LockWord {
    /// The address of the word.
    #[must_use]
    pub fn address(self) -> u64 {
        match self {
            Self::OfLock(word) | Self::OnOwnStack(word) => word,
        }
    }
}

/// The word of the lock itself, by that for which a thread waits and its stack pointer; of a thread of Python with the
/// layout of its interpreter.
#[must_use]
pub fn word_of_lock<M: UserMemory>(
    memory: &M,
    layout: Option<&Layout>,
    word: u64,
    stack_pointer: u64,
) -> LockWord {
    if word.wrapping_sub(stack_pointer) >= OWN_STACK_BYTES {
        return LockWord::OfLock(word);
    }
    let parked_for = layout
        .filter(|layout| parks(layout))
        .and_then(|_| memory.word(UserAddr(word.wrapping_sub(8))).ok());
    match parked_for {
        Some(lock) if is_object(memory, lock) || has_parked(memory, lock) => LockWord::OfLock(lock),
        _ => LockWord::OnOwnStack(word),
    }
}

/// Whether threads of an interpreter park: of those that keep attributes within their objects, which is from 3.13 on.
fn parks(layout: &Layout) -> bool {
    layout.object.instance == InstanceStyle::INLINE_VALUES
}

/// Whether an address could be that of a field of an object. Before the words of other locks are numbers that look so.
fn is_object<M: UserMemory>(memory: &M, lock: u64) -> bool {
    let lock = UserAddr(lock);
    lock.could_be_structure() && memory.word(lock).is_ok()
}

/// Whether an address within a word is that of a byte with the bit of parked threads.
fn has_parked<M: UserMemory>(memory: &M, lock: u64) -> bool {
    byte(memory, lock).is_some_and(|bits| bits & HAS_PARKED != 0)
}

fn byte<M: UserMemory>(memory: &M, address: u64) -> Option<u64> {
    let word = memory.word(UserAddr(address & !7)).ok()?;
    Some(word >> (8 * (address & 7)) & 0xff)
}

/// The object for whose critical section a thread waits that is parked for this address.
pub(super) fn object_of_critical_section(layout: &Layout, word: u64) -> Option<UserAddr> {
    let object = UserAddr(word.wrapping_sub(OBJECT_MUTEX));
    (layout.is_free_threaded() && object.could_be_structure()).then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::{
        remote::lock::tests::{FAULT, Made},
        versions,
    };

    const STACK: u64 = 0x7000_0000;
    const WORD: u64 = STACK + 0x40;

    /// What is before a word on the stack of a thread, and what is at the address which that is.
    fn stack_with(before: u64, there: Option<u64>) -> impl UserMemory {
        Made(move |address| match address {
            _ if address == WORD - 8 => before,
            _ if address == before & !7 => there.unwrap_or(FAULT),
            _ => 1,
        })
    }

    fn newest() -> &'static Layout {
        &versions::SUPPORTED.last().unwrap().layout
    }

    #[test]
    fn a_parked_thread_says_for_which_lock() {
        let memory = stack_with(0x5000_0010, Some(3));
        let word = |layout, word| word_of_lock(&memory, layout, word, STACK);
        assert_eq!(word(Some(newest()), WORD), LockWord::OfLock(0x5000_0010));
        // Not on its stack.
        let elsewhere = LockWord::OfLock(0x6000_0040);
        assert_eq!(word(Some(newest()), 0x6000_0040), elsewhere);
        // A thread of native code, and one of an older version, do not park.
        let own = LockWord::OnOwnStack(WORD);
        assert_eq!(word(None, WORD), own);
        assert_eq!(word(Some(&versions::SUPPORTED[0].layout), WORD), own);
    }

    #[test]
    fn what_is_no_address_of_a_lock_is_none() {
        // As before the word of a condition variable, of glibc and of musl.
        for number in [0, 0x8_0000_0000, 0x7ff8] {
            let memory = stack_with(number, None);
            let word = word_of_lock(&memory, Some(newest()), WORD, STACK);
            assert_eq!(word, LockWord::OnOwnStack(WORD), "{number:#x}");
        }
    }

    #[test]
    fn within_a_word_is_only_a_lock_for_which_somebody_is_parked() {
        for (bits, expected) in [
            (3, LockWord::OfLock(0x5000_000a)),
            (1, LockWord::OnOwnStack(WORD)),
        ] {
            let memory = stack_with(0x5000_000a, Some(bits << 16));
            let word = word_of_lock(&memory, Some(newest()), WORD, STACK);
            assert_eq!(word, expected);
        }
    }

    fn free_threaded() -> Layout {
        let mut layouts = versions::SUPPORTED.iter().rev();
        layouts.find_map(|series| series.free_threaded).unwrap()
    }

    #[test]
    fn only_a_free_threaded_build_has_critical_sections() {
        let object = |layout, word| object_of_critical_section(layout, word);
        let layout = free_threaded();
        assert_eq!(object(&layout, 0x500a), Some(UserAddr(0x5000)));
        assert_eq!(object(&layout, 0x5008), None);
        assert_eq!(object(&versions::SUPPORTED[0].layout, 0x500a), None);
    }
}
