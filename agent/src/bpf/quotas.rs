//! How many entries of an array each user may take, so that one does not take all.

use std::collections::HashMap;

/// The user of system services, who may take more than others.
const ROOT: u32 = 0;

/// The entries of an array that users have.
#[derive(Debug)]
pub(super) struct Quotas {
    entries: u32,
    taken: HashMap<u32, u32>,
}

impl Quotas {
    /// Of an array of `entries` entries.
    pub(super) fn new(entries: u32) -> Self {
        Self {
            entries,
            taken: HashMap::new(),
        }
    }

    /// Whether a user may take so many more: half of all, root three quarters.
    pub(super) fn has_room(&self, user: u32, count: u32) -> bool {
        let most = match user {
            ROOT => self.entries / 4 * 3,
            _ => self.entries / 2,
        };
        let taken = self.taken.get(&user).copied().unwrap_or(0);
        taken.saturating_add(count) <= most
    }

    /// Counts entries that a user has taken.
    pub(super) fn take(&mut self, user: u32, count: u32) {
        *self.taken.entry(user).or_default() += count;
    }

    /// Counts entries that a user has given back.
    pub(super) fn give_back(&mut self, user: u32, count: u32) {
        if let Some(taken) = self.taken.get_mut(&user) {
            *taken = taken.saturating_sub(count);
            if *taken == 0 {
                self.taken.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Quotas, ROOT};

    #[test]
    fn one_user_does_not_take_all() {
        let mut quotas = Quotas::new(1 << 16);
        let mut processes = 0;
        while quotas.has_room(1000, 1 << 13) {
            quotas.take(1000, 1 << 13);
            processes += 1;
        }
        assert_eq!(processes, 4);
        assert!(quotas.has_room(1001, 1 << 13) && quotas.has_room(ROOT, 1 << 13));
        quotas.give_back(1000, 1 << 13);
        assert!(quotas.has_room(1000, 1 << 13) && !quotas.has_room(1000, 1 << 14));
        for _ in 0..3 {
            quotas.give_back(1000, 1 << 13);
        }
        assert!(quotas.taken.is_empty());
    }
}
