//! A cache of two generations.

use std::{borrow::Borrow, hash::Hash, mem};

use foldhash::HashMap;

/// A map of two generations: an entry that is not inserted again during a whole generation is
/// evicted.
///
/// It is the counterpart of [`Bpf::resend`](crate::bpf::Bpf::resend): the BPF programs send what is
/// still in use once per generation, and records in the ring buffer refer to the current generation
/// or the one before.
#[derive(Clone, Debug)]
pub struct GenerationalCache<K, V> {
    current: HashMap<K, V>,
    previous: HashMap<K, V>,
}

impl<K, V> Default for GenerationalCache<K, V> {
    fn default() -> Self {
        Self {
            current: HashMap::default(),
            previous: HashMap::default(),
        }
    }
}

impl<K: Eq + Hash, V> GenerationalCache<K, V> {
    /// Inserts into the current generation, replacing the entry of either.
    pub fn insert(&mut self, key: K, value: V) {
        self.previous.remove(&key);
        self.current.insert(key, value);
    }

    /// The entry of a key.
    #[must_use]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.current.get(key).or_else(|| self.previous.get(key))
    }

    /// The entry of a key, mutable.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.current
            .get_mut(key)
            .or_else(|| self.previous.get_mut(key))
    }

    /// Moves an entry of the previous generation to the current one; returns whether it was there.
    pub fn renew(&mut self, key: &K) -> bool {
        let Some((key, value)) = self.previous.remove_entry(key) else {
            return false;
        };
        self.current.insert(key, value);
        true
    }

    /// Starts a new generation and evicts the entries last inserted in the previous one.
    pub fn rotate(&mut self) {
        self.previous = mem::take(&mut self.current);
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.len() + self.previous.len()
    }
}

#[cfg(test)]
mod tests {
    use super::GenerationalCache;

    #[test]
    fn entries_that_are_not_inserted_again_are_evicted() {
        let mut cache = GenerationalCache::default();
        cache.insert("a", 1);
        cache.insert("b", 1);
        cache.rotate();
        assert_eq!(cache.get("a"), Some(&1));
        cache.insert("b", 2);
        assert_eq!((cache.get("b"), cache.len()), (Some(&2), 2));
        cache.rotate();
        assert_eq!(cache.get("a"), None);
        assert_eq!(cache.get("b"), Some(&2));
        assert!(cache.renew(&"b") && !cache.renew(&"b"));
        cache.rotate();
        assert_eq!(cache.get("b"), Some(&2));
        cache.rotate();
        assert_eq!(cache.len(), 0);
    }
}
