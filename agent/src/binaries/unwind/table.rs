//! Tables in which the BPF programs look up rules, in the format of [`agent_common::unwind`].

use agent_common::unwind::{PAGE_BYTES, TableWords, row};

use super::{compiled::Compiled, rows::Row};

/// The table of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedTable {
    /// The first address of page 0, a multiple of [`PAGE_BYTES`].
    pub base: u64,
    /// Number of pages.
    pub pages: u32,
    /// Heads of pages, then rows.
    pub words: Vec<u32>,
}

impl TableWords for PackedTable {
    fn word(&self, index: u32) -> u32 {
        self.words.get(index as usize).copied().unwrap_or(0)
    }
}

/// Packs the rows of a file into a table; `indices` are those of its rules, in their order.
#[must_use]
pub fn pack(compiled: &Compiled, indices: &[u16]) -> PackedTable {
    let page_of = |row: &Row| u64::from(row.distance) / PAGE_BYTES;
    let (Some(first), Some(last)) = (compiled.rows.first(), compiled.rows.last()) else {
        return PackedTable::default();
    };
    let (first, last) = (page_of(first), page_of(last));
    // Distances have 32 bits, so there are at most 65,536 pages.
    let pages = last - first + 1;
    let heads = usize::try_from(pages).map_or(0, |pages| pages + 1);
    let mut words = Vec::with_capacity(2 * heads + compiled.rows.len());
    words.resize(heads, 0);
    let mut rows = compiled.rows.iter().peekable();
    let mut rule = 0;
    for (head, page) in (first..=last).enumerate() {
        let start = words.len();
        words[head] = number(start);
        while let Some(next) = rows.next_if(|next| page_of(next) == page) {
            let low = (next.distance & 0xffff) as u16;
            if words.len() == start && low != 0 {
                words.push(row(0, rule));
            }
            rule = indices.get(next.rule as usize).copied().unwrap_or(0);
            words.push(row(low, rule));
        }
        if words.len() == start && rule != 0 {
            words.push(row(0, rule));
        }
    }
    let end = number(words.len());
    if let Some(last) = words.get_mut(heads.saturating_sub(1)) {
        *last = end;
    }
    PackedTable {
        base: compiled.base + first * PAGE_BYTES,
        pages: number(heads.saturating_sub(1)),
        words,
    }
}

/// A number of words; no file has so many that it does not fit.
fn number(words: usize) -> u32 {
    u32::try_from(words).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{PackedTable, pack};
    use crate::binaries::unwind::{Compiled, SharedRules, rows::Row};
    use agent_common::unwind::{
        BLOCK_WORDS, Block, CfaRule, PAGE_BYTES, Rule, RuleSearch, TableWords as _,
    };
    use proptest::prelude::{any, prop, proptest};
    use std::time::Instant;

    const BASE: u64 = 3 * PAGE_BYTES;

    fn rule(offset: i32) -> Rule {
        Rule {
            cfa: CfaRule::REGISTER,
            offset,
            ..Rule::UNKNOWN
        }
    }

    /// Rows with these distances, whose rules have these offsets; the offset 0 is the unknown rule.
    fn compiled(rows: &[(u32, u8)]) -> Compiled {
        let mut compiled = Compiled {
            base: BASE,
            ..Compiled::default()
        };
        for (distance, offset) in rows {
            let rule = match offset {
                0 => Rule::UNKNOWN,
                offset => rule((*offset).into()),
            };
            let rule = compiled.rules.index(&rule).into();
            let distance = *distance;
            compiled.rows.push(Row { distance, rule });
        }
        compiled
    }

    /// The rules, of which the first is another file's.
    fn shared_rules() -> SharedRules {
        let mut rules = SharedRules::new();
        rules.add(&[rule(99)], Instant::now());
        rules
    }

    fn packed(compiled: &Compiled, rules: &mut SharedRules) -> PackedTable {
        pack(compiled, &rules.add(compiled.rules(), Instant::now()))
    }

    fn find(table: &PackedTable, rules: &SharedRules, address: u64) -> Rule {
        let distance = address.wrapping_sub(table.base);
        let index = RuleSearch::new().find(table, table.pages, distance);
        rules.get(index).unwrap()
    }

    #[test]
    fn tables_have_the_documented_format() {
        let mut rules = shared_rules();
        let page = 1 << 16;
        let rows = [
            (page + 0x10, 1),
            (page + 0x20, 2),
            (3 * page, 0),
            (4 * page + 4, 1),
            (4 * page + 8, 0),
        ];
        let table = packed(&compiled(&rows), &mut rules);
        assert_eq!((table.base, table.pages), (BASE + PAGE_BYTES, 4));
        let heads = [5, 8, 9, 10, 13];
        let rows = [0, 0x10_0002, 0x20_0003, 3, 0, 0, 0x4_0002, 0x8_0000];
        assert_eq!(table.words, [&heads[..], &rows].concat());
        assert_eq!(Block::all_of(&table.words).len(), 1);

        assert_eq!(packed(&compiled(&[]), &mut rules), PackedTable::default());
    }

    proptest! {
        #[test]
        fn searches_find_the_rules_of_the_rows(
            steps in prop::collection::vec((1_u32..0x3_0000, 0..4_u8), 1..100),
            near in any::<bool>(),
        ) {
            let mut rows: Vec<(u32, u8)> = Vec::new();
            let mut distance = 0;
            for (step, rule) in steps {
                distance += if near { step & 0xff | 1 } else { step };
                if rows.last().map_or(0, |(_, last)| *last) != rule {
                    rows.push((distance, rule));
                }
            }
            // Behind the last function the rule is unknown.
            rows.push((distance + 1, 0));
            let compiled = compiled(&rows);
            let mut rules = shared_rules();
            let table = packed(&compiled, &mut rules);
            for (address, _) in compiled.rows() {
                for address in [address - 1, address, address + 1, address + 0xffff] {
                    assert_eq!(find(&table, &rules, address), compiled.find(address));
                }
            }
            for (block, words) in Block::all_of(&table.words).zip(table.words.chunks(BLOCK_WORDS)) {
                assert!(block.0.starts_with(words));
            }
            assert_eq!(table.word(u32::MAX), 0);
        }
    }
}
