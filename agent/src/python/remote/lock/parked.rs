//! For what a thread is parked: the interpreter's own way to wait, from 3.13 on.
//!
//! A parked thread waits for a semaphore on its own stack, and just before that is the address for which it is parked
//! (`struct wait_entry` of `Python/parking_lot.c`): the word of a lock, `ob_mutex` of an object of a free-threaded build for
//! whose critical section the thread waits, or what [`stop_the_world`](super::super::stop_the_world) is about.

use agent_common::{
    layout::Layout,
    memory::{UserAddr, UserMemory},
};

/// Bytes above the stack pointer in which a word of the waiting function itself can be.
const OWN_STACK_BYTES: u64 = 4096;

/// The bit of a parked thread in a lock, and the state of a thread that is stopped (`_Py_THREAD_SUSPENDED`).
const HAS_PARKED: u64 = 2;

/// `ob_mutex` of an object in a free-threaded build.
const OBJECT_MUTEX: u64 = 10;

/// The word of the lock itself, by that for which a thread waits and its stack pointer.
#[must_use]
pub fn word_of_lock<M: UserMemory>(memory: &M, word: u64, stack_pointer: u64) -> u64 {
    if word.wrapping_sub(stack_pointer) >= OWN_STACK_BYTES {
        return word;
    }
    match memory.word(UserAddr(word.wrapping_sub(8))) {
        Ok(lock) if UserAddr(lock).could_be_structure() || has_parked(memory, lock) => lock,
        _ => word,
    }
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
    use crate::python::{remote::lock::tests::Made, versions};

    #[test]
    fn a_parked_thread_says_for_which_lock() {
        let memory = Made(|address| {
            if address == 0x7000_0038 {
                0x5000_0010
            } else {
                1
            }
        });
        assert_eq!(word_of_lock(&memory, 0x7000_0040, 0x7000_0000), 0x5000_0010);
        // Not on its stack, and nothing there that could be an address.
        assert_eq!(word_of_lock(&memory, 0x6000_0040, 0x7000_0000), 0x6000_0040);
        let none = Made(|_| 0);
        assert_eq!(word_of_lock(&none, 0x7000_0040, 0x7000_0000), 0x7000_0040);
    }

    #[test]
    fn within_a_word_is_only_a_lock_for_which_somebody_is_parked() {
        for (bits, expected) in [(3, 0x5000_000a), (1, 0x7000_0040)] {
            let memory = Made(|address| match address {
                0x7000_0038 => 0x5000_000a,
                0x5000_0008 => bits << 16,
                _ => 0,
            });
            assert_eq!(word_of_lock(&memory, 0x7000_0040, 0x7000_0000), expected);
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
