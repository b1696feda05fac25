//! Records of the ring buffer on their way to another thread.

use std::mem::size_of;

use zerocopy::IntoBytes as _;

/// Records one after the other, aligned as in the ring buffer.
#[derive(Debug, Default)]
pub struct Records {
    words: Vec<u64>,
    /// The first word of each record, and its length in bytes.
    places: Vec<(usize, usize)>,
}

impl Records {
    /// Adds a record.
    pub fn push(&mut self, record: &[u8]) {
        let start = self.words.len();
        let words = record.len().div_ceil(size_of::<u64>());
        self.words.resize(start + words, 0);
        let place = self.words.get_mut(start..).unwrap_or_default();
        if let Some(place) = place.as_mut_bytes().get_mut(..record.len()) {
            place.copy_from_slice(record);
        }
        self.places.push((start, record.len()));
    }

    /// The records in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().filter_map(|&(start, bytes)| {
            let words = self.words.get(start..)?;
            words.as_bytes().get(..bytes)
        })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Their size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::Records;

    #[test]
    fn records_stay_what_they_were_and_are_aligned() {
        let mut records = Records::default();
        assert!(records.is_empty());
        let all: [&[u8]; 4] = [b"one", b"", b"three and more", b"4"];
        for record in all {
            records.push(record);
        }
        assert_eq!(records.iter().collect::<Vec<_>>(), all);
        assert_eq!((records.len(), records.bytes()), (4, 32));
        assert!(records.iter().all(|record| record.as_ptr().addr() % 8 == 0));
    }
}
