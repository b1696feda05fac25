//! Line tables: from the offset of an instruction to its line.
//!
//! The formats are described in CPython's `Objects/lnotab_notes.txt` (up to 3.10) and
//! `Objects/locations.md` (PEP 657, 3.11 and later).
//!
//! Invariants: no I/O; the bytes are untrusted: no panic, and memory is at most a small multiple of
//! their number.

use std::num::NonZeroU32;

use agent_common::layout::LineTableFormat;

/// Bit that is set in the first byte of an entry of a location table, and in no other byte.
const ENTRY: u8 = 0x80;

/// A decoded line table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineTable {
    first_line: Option<NonZeroU32>,
    /// Offsets at which the line changes, ascending.
    starts: Vec<Start>,
}

/// Instructions from this offset to the next start have this line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    offset: u32,
    line: Option<NonZeroU32>,
}

impl LineTable {
    /// Decodes the table of a code object whose first line is `first_line`.
    #[must_use]
    pub fn new(format: LineTableFormat, first_line: i32, table: &[u8]) -> Self {
        let mut builder = LineTableBuilder {
            starts: Vec::new(),
            end: 0,
            line: first_line.into(),
        };
        match format {
            LineTableFormat::LNOTAB => {
                builder.read_lnotab(table, |change| change.cast_signed().into());
            }
            LineTableFormat::UNSIGNED_LNOTAB => builder.read_lnotab(table, i64::from),
            LineTableFormat::RANGES => builder.read_ranges(table),
            LineTableFormat::LOCATIONS => builder.read_locations(table),
            // An unknown format has only a first line.
            _ => {}
        }
        Self {
            first_line: line_number(first_line.into()),
            starts: builder.starts,
        }
    }

    /// The line of the instruction `offset` bytes into the bytecode; the first line of the code
    /// object before the first instruction.
    #[must_use]
    pub fn line(&self, offset: i32) -> Option<NonZeroU32> {
        let Ok(offset) = u32::try_from(offset) else {
            return self.first_line;
        };
        let after = self.starts.partition_point(|start| start.offset <= offset);
        self.starts.get(after.checked_sub(1)?)?.line
    }
}

/// Builds a table.
struct LineTableBuilder {
    starts: Vec<Start>,
    /// End of the ranges so far.
    end: u32,
    /// The current line.
    line: i64,
}

impl LineTableBuilder {
    /// `co_lnotab`: pairs of an advance in bytes and a change of the line after it.
    fn read_lnotab(&mut self, table: &[u8], read_change: impl Fn(u8) -> i64) {
        let (pairs, _) = table.as_chunks();
        for &[bytes, change] in pairs {
            self.add_range(bytes.into(), Some(self.line));
            self.change_line(read_change(change));
        }
        self.start(Some(self.line));
    }

    /// `co_linetable` of 3.10: pairs of the bytes of a range and a signed change of the line before
    /// it.
    fn read_ranges(&mut self, table: &[u8]) {
        let (pairs, _) = table.as_chunks();
        for &[bytes, change] in pairs {
            let line = match change.cast_signed() {
                i8::MIN => None,
                change => {
                    self.change_line(change.into());
                    Some(self.line)
                }
            };
            self.add_range(bytes.into(), line);
        }
        self.start(None);
    }

    /// `co_linetable` of 3.11 and later: the first byte of an entry has its kind and its number of
    /// code units; the payload depends on the kind.
    fn read_locations(&mut self, table: &[u8]) {
        let mut rest = table;
        while let Some((&first, after)) = rest.split_first() {
            let bytes = after
                .iter()
                .position(|byte| byte & ENTRY != 0)
                .unwrap_or(after.len());
            let (payload, next) = after.split_at(bytes);
            rest = next;
            if first & ENTRY == 0 {
                continue;
            }
            let has_line = match (first >> 3) & 15 {
                0..=9 => true,
                kind @ 10..=12 => {
                    self.change_line(i64::from(kind) - 10);
                    true
                }
                13 | 14 => {
                    self.change_line(signed_number(payload));
                    true
                }
                _ => false,
            };
            let range_bytes = 2 * (u32::from(first & 7) + 1);
            self.add_range(range_bytes, has_line.then_some(self.line));
        }
        self.start(None);
    }

    fn change_line(&mut self, change: i64) {
        self.line = self.line.saturating_add(change);
    }

    fn add_range(&mut self, bytes: u32, line: Option<i64>) {
        if bytes > 0 {
            self.start(line);
            self.end = self.end.saturating_add(bytes);
        }
    }

    /// Starts `line` at the end of the ranges so far.
    fn start(&mut self, line: Option<i64>) {
        let line = line.and_then(line_number);
        if self.starts.last().is_none_or(|last| last.line != line) {
            self.starts.push(Start {
                offset: self.end,
                line,
            });
        }
    }
}

/// A valid line number; CPython uses line 0 for instructions that it adds to a module.
fn line_number(line: i64) -> Option<NonZeroU32> {
    u32::try_from(line).ok().and_then(NonZeroU32::new)
}

/// A signed number in groups of six bits, least significant first; its lowest bit is the sign.
fn signed_number(bytes: &[u8]) -> i64 {
    let mut number = 0_i64;
    // CPython writes fewer groups.
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        number |= i64::from(byte & 0x3f) << (6 * index);
        if byte & 0x40 == 0 {
            break;
        }
    }
    if number & 1 == 1 {
        -(number >> 1)
    } else {
        number >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::{LineTable, signed_number};
    use agent_common::layout::LineTableFormat;
    use proptest::prelude::{any, proptest};

    fn lines(table: &LineTable, offsets: impl IntoIterator<Item = i32>) -> Vec<u32> {
        offsets
            .into_iter()
            .map(|offset| table.line(offset).map_or(0, u32::from))
            .collect()
    }

    #[test]
    fn lnotab_changes_the_line_after_the_advance() {
        // 10 for 4 bytes, 8 for 2, then 300 behind two steps without an advance.
        let table = [4, 254, 2, 127, 0, 127, 0, 38];
        let table = LineTable::new(LineTableFormat::LNOTAB, 10, &table);
        assert_eq!(
            lines(&table, [-1, 0, 3, 4, 5, 6, 1000]),
            [10, 10, 10, 8, 8, 300, 300]
        );
    }

    #[test]
    fn an_unsigned_lnotab_only_goes_forward() {
        // What is 2 lines back in a signed table is 254 on here: 10 for 1 byte, 264 for 2, then
        // 519 behind a step without an advance, and 774 behind more bytes than one step has.
        let table = [1, 254, 2, 255, 0, 0, 255, 0, 45, 255];
        let table = LineTable::new(LineTableFormat::UNSIGNED_LNOTAB, 10, &table);
        assert_eq!(
            lines(&table, [-1, 0, 1, 2, 3, 258, 302, 303, 5000]),
            [10, 10, 264, 264, 519, 519, 519, 774, 774]
        );
        let table = LineTable::new(LineTableFormat::LNOTAB, 10, &[1, 254]);
        assert_eq!(lines(&table, [0, 1]), [10, 8]);
    }

    #[test]
    fn half_a_pair_at_the_end_is_ignored() {
        for format in [LineTableFormat::UNSIGNED_LNOTAB, LineTableFormat::LNOTAB] {
            let table = LineTable::new(format, 10, &[2, 1, 2]);
            assert_eq!(lines(&table, [0, 2, 4]), [10, 11, 11]);
        }
    }

    #[test]
    fn an_empty_lnotab_has_the_first_line_everywhere() {
        let table = LineTable::new(LineTableFormat::LNOTAB, 7, &[]);
        assert_eq!(lines(&table, [-1, 0, 100]), [7, 7, 7]);
    }

    #[test]
    fn ranges_change_the_line_before_the_advance() {
        // 11 for 2 bytes, none for 4, then 200 by an entry of no length.
        let table = [2, 1, 4, 128, 0, 127, 6, 62];
        let table = LineTable::new(LineTableFormat::RANGES, 10, &table);
        assert_eq!(
            lines(&table, [-1, 0, 1, 2, 5, 6, 11, 12]),
            [10, 11, 11, 0, 0, 200, 200, 0]
        );
    }

    #[test]
    fn locations_of_every_kind_are_decoded() {
        let table = [
            0x80 | 15 << 3, // no line, 1 unit
            0x80 | 1,       // the first line, 2 units
            0x00,           //
            0x80 | 12 << 3, // 2 lines on
            0x01,           //
            0x02,           //
            0x80 | 13 << 3, // 3 lines back
            0x07,           //
            0x80 | 14 << 3, // 100 lines on
            0x48,           //
            0x03,           //
            0x00,           //
            0x00,           //
            0x00,           //
        ];
        let table = LineTable::new(LineTableFormat::LOCATIONS, 50, &table);
        assert_eq!(
            lines(&table, [-2, 0, 2, 5, 6, 8, 10, 11, 12]),
            [50, 0, 50, 50, 52, 49, 149, 149, 0]
        );
    }

    #[test]
    fn the_line_of_a_module_before_its_first_statement_is_none() {
        // Goes back from 1 to 0, as the first instruction of a module does.
        let table = LineTable::new(LineTableFormat::LOCATIONS, 1, &[0x80 | 13 << 3, 0x03]);
        assert_eq!(table.line(0), None);
    }

    #[test]
    fn signed_numbers_end_by_themselves() {
        assert_eq!(signed_number(&[0x00]), 0);
        assert_eq!(signed_number(&[0x03]), -1);
        assert_eq!(signed_number(&[0x7f, 0x7f, 0x3f, 0x3f]), -0x1_ffff);
        assert_eq!(signed_number(&[]), 0);
        signed_number(&[0xff; 100]);
    }

    #[test]
    fn an_unknown_format_has_a_first_line() {
        let table = LineTable::new(LineTableFormat(9), 3, &[1, 2, 3, 4]);
        assert_eq!(lines(&table, [-1, 0, 2]), [3, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded(
            format in 0..5_u16, first_line in any::<i32>(), bytes in any::<Vec<u8>>(), offset in any::<i32>()
        ) {
            let table = LineTable::new(LineTableFormat(format), first_line, &bytes);
            let _ = table.line(offset);
            assert!(table.starts.len() <= bytes.len() + 1);
            assert!(table.starts.is_sorted_by_key(|start| start.offset));
        }
    }
}
