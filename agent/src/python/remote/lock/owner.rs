//! Who holds a lock, where the lock says that.

use agent_common::memory::{UserAddr, UserMemory};

use super::{Lock, LockReader};

/// The classes of a lock that says who holds it, and what the attribute of the ones that are written in Python is
/// called: in 2.7, and later where the one in C is missing.
const IN_C: &str = "_thread.RLock";
const IN_PYTHON: &str = "_RLock";
const OWNERS: [&str; 2] = ["_RLock__owner", "_owner"];

/// Most attributes that are looked at, as [`LockReader::MAX_ENTRIES`] counts them: it has five.
const MAX_ENTRIES: u32 = 16;

impl<M: UserMemory> LockReader<'_, M> {
    /// `pthread_self()` of the thread that holds a lock, where the lock says who does: an `RLock`.
    #[must_use]
    pub fn owner(&mut self, lock: &Lock) -> Option<u64> {
        let object = UserAddr(lock.address);
        if !lock.is_object || lock.is_critical_section {
            return None;
        }
        let owner = match &*self.full_class_name(object)? {
            // After the lock itself, which takes a word of eight bytes in all versions; 0 when nobody holds it.
            IN_C => self.memory.word(self.body(object).field(8)).ok()?,
            IN_PYTHON => self.owner_attribute(object)?,
            _ => return None,
        };
        (owner != 0).then_some(owner)
    }

    /// The attribute with the owner, an integer, or `None` when nobody holds the lock.
    fn owner_attribute(&mut self, object: UserAddr) -> Option<u64> {
        self.entries_left = MAX_ENTRIES;
        for entry in self.attributes(object) {
            let name = self.key_text(entry.key);
            if name.is_some_and(|name| OWNERS.contains(&&*name)) {
                return self.integer(entry.value)?.try_into().ok();
            }
        }
        None
    }
}
