//! Rows sorted by address.

use std::ops::Range;

/// Stands for a rule where no function covers an address.
pub(super) const GAP: u32 = u32::MAX;

/// A rule that applies from `distance` to the next row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Distance from the base, in bytes.
    pub(super) distance: u32,
    /// The index of the rule, or [`GAP`].
    pub(super) rule: u32,
}

/// Rows that are being added.
///
/// Invariants: they are in ascending order, adjacent rules differ, and the last is a [`GAP`].
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// End of the covered distances.
    end: u32,
}

impl Rows {
    /// Covers `range` with a rule, except where it is covered already.
    pub(super) fn push(&mut self, range: Range<u32>, rule: u32) {
        let start = range.start.max(self.end);
        if start >= range.end {
            return;
        }
        if start > self.end {
            self.add(self.end, GAP);
        }
        self.add(start, rule);
        self.end = range.end;
    }

    fn add(&mut self, distance: u32, rule: u32) {
        match self.rows.last() {
            Some(last) if last.rule == rule => {}
            // The last row covers nothing.
            Some(last) if last.distance == distance => {
                self.rows.pop();
                self.add(distance, rule);
            }
            _ => self.rows.push(Row { distance, rule }),
        }
    }

    /// The rows.
    pub(super) fn finish(mut self) -> Vec<Row> {
        if !self.rows.is_empty() {
            self.add(self.end, GAP);
        }
        self.rows
    }
}

/// Merges two lists of rows: `choose` gets the two rules of each address.
pub(super) fn merge(
    left: &[Row],
    right: &[Row],
    mut choose: impl FnMut(u32, u32) -> u32,
) -> Vec<Row> {
    let mut merged = Rows {
        rows: Vec::with_capacity(left.len() + right.len()),
        end: 0,
    };
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let (mut left_rule, mut right_rule) = (GAP, GAP);
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(left), Some(right)) => left.distance.min(right.distance),
            (Some(row), None) | (None, Some(row)) => row.distance,
            (None, None) => return merged.rows,
        };
        if let Some(row) = left.next_if(|row| row.distance == next) {
            left_rule = row.rule;
        }
        if let Some(row) = right.next_if(|row| row.distance == next) {
            right_rule = row.rule;
        }
        merged.add(next, choose(left_rule, right_rule));
    }
}

#[cfg(test)]
mod tests {
    use super::{GAP, Row, Rows, merge};
    use proptest::prelude::{prop, proptest};

    /// The rule that holds at a distance.
    fn find(rows: &[Row], distance: u32) -> u32 {
        let before = rows.iter().take_while(|row| row.distance <= distance);
        before.last().map_or(GAP, |row| row.rule)
    }

    proptest! {
        #[test]
        fn rows_are_sorted_and_the_first_to_cover_an_address_wins(
            first in prop::collection::vec((0..50_u32, 0..20_u32, 0..3_u32), 0..20),
            second in prop::collection::vec((0..50_u32, 0..20_u32, 0..3_u32), 0..20),
        ) {
            let make = |covered: &[(u32, u32, u32)]| {
                let mut rows = Rows::default();
                let mut expected = [GAP; 80];
                let mut end = 0;
                for &(start, bytes, rule) in covered {
                    rows.push(start..start + bytes, rule);
                    for distance in start.max(end)..start + bytes {
                        expected[distance as usize] = rule;
                        end = distance + 1;
                    }
                }
                (rows.finish(), expected)
            };
            let (left, expected_left) = make(&first);
            let (right, expected_right) = make(&second);
            let both = merge(&left, &right, Ord::min);
            for rows in [&left, &right, &both] {
                assert!(rows.is_sorted_by(|row, next| row.distance < next.distance));
                assert!(rows.windows(2).all(|pair| pair[0].rule != pair[1].rule));
            }
            for distance in 0..80_u32 {
                let [one, other] = [expected_left, expected_right].map(|it| it[distance as usize]);
                assert_eq!(find(&left, distance), one);
                assert_eq!(find(&both, distance), one.min(other));
            }
        }
    }
}
