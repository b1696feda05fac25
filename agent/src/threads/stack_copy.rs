//! A copy of a part of a thread's stack.

use std::{cell::Cell, collections::BTreeMap};

use agent_common::{
    limits::STACK_PAGE_BYTES,
    memory::{Fault, UserAddr, UserMemory},
    record::StackPage,
};

/// How far above a copy an address is one of the same stack: other addresses that a walk reads are of code.
const NEAR: u64 = 16 << 20;

/// Pages of a stack as they were when a sample was taken.
#[derive(Debug, Default)]
pub(super) struct StackCopy {
    pages: BTreeMap<u64, Box<[u8; STACK_PAGE_BYTES]>>,
    is_too_short: Cell<bool>,
}

impl StackCopy {
    /// Adds a page.
    pub(super) fn add(&mut self, page: &StackPage) {
        self.pages.insert(page.address, Box::new(page.bytes));
    }

    /// How much memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.pages.len() * STACK_PAGE_BYTES
    }

    /// Begins a walk.
    pub(super) fn begin(&self) {
        self.is_too_short.set(false);
    }

    /// Whether the walk has read something of the stack that is not in the copy.
    pub(super) fn is_too_short(&self) -> bool {
        self.is_too_short.get()
    }

    /// Notes that something was not there.
    fn miss(&self, address: u64) -> Fault {
        let first = self.pages.first_key_value();
        if first.is_some_and(|(first, _)| address.wrapping_sub(*first) < NEAR) {
            self.is_too_short.set(true);
        }
        Fault
    }

    /// The bytes from an address up to the end of its page.
    fn rest_of_page(&self, address: u64) -> Option<&[u8]> {
        let (start, page) = self.pages.range(..=address).next_back()?;
        page.get(usize::try_from(address - start).ok()?..)
    }
}

impl UserMemory for StackCopy {
    unsafe fn try_copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        let was_too_short = self.is_too_short.get();
        // SAFETY: the caller's.
        let result = unsafe { self.copy(address, into, bytes) };
        self.is_too_short.set(was_too_short);
        result
    }

    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        let mut from = address.0;
        let mut done = 0;
        let bytes = bytes as usize;
        while done < bytes {
            let rest = self.rest_of_page(from).filter(|rest| !rest.is_empty());
            let rest = rest.ok_or_else(|| self.miss(from))?;
            let length = rest.len().min(bytes - done);
            // SAFETY: the caller has room for `bytes`, of which `done` are written, and `length` are no more than
            // the rest of them.
            unsafe {
                into.add(done)
                    .copy_from_nonoverlapping(rest.as_ptr(), length);
            };
            done += length;
            from = from.wrapping_add(length as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use agent_common::record::{Header, RecordKind};

    use super::*;

    fn page(address: u64, byte: u8) -> StackPage {
        StackPage {
            header: Header {
                kind: RecordKind::STACK_PAGE,
                reserved: 0,
                bytes: 24 + 4096,
            },
            stack: 1,
            address,
            bytes: [byte; STACK_PAGE_BYTES],
        }
    }

    #[test]
    fn what_was_copied_is_read_across_pages_and_nothing_else() {
        let mut copy = StackCopy::default();
        copy.add(&page(0x8000, 2));
        copy.add(&page(0x7000, 1));
        assert_eq!(copy.bytes(), 8192);
        assert_eq!(copy.word(UserAddr(0x7ffc)), Ok(0x0202_0202_0101_0101));
        assert_eq!(copy.word(UserAddr(0x8ff8)), Ok(0x0202_0202_0202_0202));
        for (outside, is_of_stack) in [
            (0, false),
            (0x6ffc, false),
            (0x8ffc, true),
            (0x9000, true),
            (0x7f00_0000_0000, false),
            (u64::MAX - 3, false),
        ] {
            copy.begin();
            assert_eq!(copy.word(UserAddr(outside)), Err(Fault), "{outside:#x}");
            assert_eq!(copy.is_too_short(), is_of_stack, "{outside:#x}");
        }
    }
}
