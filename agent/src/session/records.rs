//! Records of the ring buffer on their way to another thread.

/// Records one after the other.
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Records {
    /// Adds a record.
    pub fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    /// The records in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .filter_map(|(start, end)| self.bytes.get(start..*end))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Their size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Records;

    #[test]
    fn records_stay_what_they_were() {
        let mut records = Records::default();
        assert!(records.is_empty());
        let all: [&[u8]; 3] = [b"one", b"", b"three"];
        for record in all {
            records.push(record);
        }
        assert_eq!(records.iter().collect::<Vec<_>>(), all);
        assert_eq!((records.len(), records.bytes()), (3, 8));
    }
}
