//! What is remembered until it has not been heard of for a while.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, mem};

/// A map of two generations: what was not inserted again in a whole one is forgotten.
///
/// It goes with [`Bpf::resend`](crate::bpf::Bpf::resend): what is still needed is
/// sent in every generation, and what is on its way refers to this one or the one before.
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
    /// Remembers `value` in this generation, and nothing else by this key.
    pub fn insert(&mut self, key: K, value: V) {
        self.previous.remove(&key);
        self.current.insert(key, value);
    }

    /// What is remembered.
    #[must_use]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.current.get(key).or_else(|| self.previous.get(key))
    }

    /// What is remembered, to be changed.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.current
            .get_mut(key)
            .or_else(|| self.previous.get_mut(key))
    }

    /// Begins a generation; forgets what was last inserted in the one before this.
    pub fn rotate(&mut self) {
        self.previous = mem::take(&mut self.current);
    }

    /// How much is remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.len() + self.previous.len()
    }
}

#[cfg(test)]
mod tests {
    use super::GenerationalCache;

    #[test]
    fn what_is_not_heard_of_again_is_forgotten() {
        let mut known = GenerationalCache::default();
        known.insert("a", 1);
        known.insert("b", 1);
        known.rotate();
        assert_eq!(known.get("a"), Some(&1));
        known.insert("b", 2);
        assert_eq!((known.get("b"), known.len()), (Some(&2), 2));
        known.rotate();
        assert_eq!(known.get("a"), None);
        assert_eq!(known.get("b"), Some(&2));
        known.rotate();
        assert_eq!(known.len(), 0);
    }
}
