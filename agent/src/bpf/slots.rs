//! The values of an array, each written once and found again by its content.

use std::collections::HashSet;

/// What is in an array, in the order of the indices.
#[derive(Debug)]
pub(super) struct Slots<T> {
    written: Vec<T>,
    most: usize,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// It is there.
    Written(u32),
    /// It is to be written there.
    New(u32),
    /// All are in use.
    Full,
}

impl<T: Copy + PartialEq> Slots<T> {
    /// An array of `most` entries.
    pub(super) fn new(most: u32) -> Self {
        Self {
            written: Vec::new(),
            most: most as usize,
        }
    }

    /// Finds the slot of a value. Where all are taken, `used` says which are in use: another one is
    /// overwritten.
    pub(super) fn find<E>(
        &mut self,
        value: &T,
        used: impl FnOnce() -> Result<HashSet<u32>, E>,
    ) -> Result<Slot, E> {
        let index = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        if let Some(known) = self.written.iter().position(|it| it == value) {
            return Ok(Slot::Written(index(known)));
        }
        if self.written.len() < self.most {
            self.written.push(*value);
            return Ok(Slot::New(index(self.written.len() - 1)));
        }
        let used = used()?;
        let mut all = (0_u32..).zip(&mut self.written);
        let Some((free, slot)) = all.find(|(index, _)| !used.contains(index)) else {
            return Ok(Slot::Full);
        };
        *slot = *value;
        Ok(Slot::New(free))
    }
}

#[cfg(test)]
mod tests {
    use super::{Slot, Slots};
    use std::{collections::HashSet, convert::Infallible};

    #[test]
    fn a_slot_that_is_not_in_use_is_overwritten_when_all_are_taken() {
        let mut slots = Slots::new(3);
        let mut find = |value: u8, used: &[u32]| {
            let used = || Ok::<_, Infallible>(used.iter().copied().collect::<HashSet<_>>());
            slots.find(&value, used).unwrap()
        };
        assert_eq!(find(10, &[]), Slot::New(0));
        assert_eq!(find(11, &[]), Slot::New(1));
        assert_eq!(find(10, &[]), Slot::Written(0));
        assert_eq!(find(12, &[]), Slot::New(2));
        assert_eq!(find(13, &[0, 1, 2]), Slot::Full);
        assert_eq!(find(13, &[0, 2]), Slot::New(1));
        assert_eq!(find(12, &[0, 2]), Slot::Written(2));
        assert_eq!(find(11, &[1, 2]), Slot::New(0));
    }
}
