//! A cache that evicts what was not inserted again for a whole generation.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, mem};

/// A map of two generations: [`rotate`](Self::rotate) evicts what was last inserted in the previous
/// one.
///
/// It caches what the BPF programs send once in every generation, see
/// [`Bpf::resend`](crate::bpf::Bpf::resend): a record refers to the current generation or to the
/// previous one.
#[derive(Clone, Debug)]
pub struct GenerationalCache<K, V> {
    current: HashMap<K, V>,
    previous: HashMap<K, V>,
}

impl<K, V> Default for GenerationalCache<K, V> {
    fn default() -> Self {
        Self {
            current: HashMap::new(),
            previous: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash, V> GenerationalCache<K, V> {
    /// Inserts into the current generation, and removes an older entry of the key.
    pub fn insert(&mut self, key: K, value: V) {
        self.previous.remove(&key);
        self.current.insert(key, value);
    }

    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.current.get(key).or_else(|| self.previous.get(key))
    }

    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.current
            .get_mut(key)
            .or_else(|| self.previous.get_mut(key))
    }

    /// Starts a generation; evicts what was last inserted in the previous one.
    pub fn rotate(&mut self) {
        self.previous = mem::take(&mut self.current);
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.len() + self.previous.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::GenerationalCache;

    #[test]
    fn what_is_not_inserted_again_is_evicted() {
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
        cache.rotate();
        assert!(cache.is_empty());
    }
}
