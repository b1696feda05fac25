//! The items of containers.
//!
//! Invariant: what a container says of its size is checked against the rest of it, and at most so many items are read
//! as are wanted.

use agent_common::{
    layout::{InstanceStyle, Layout},
    memory::{Fault, UserAddr, UserMemory},
};

use super::super::{
    structure::{Structure, behind, read_bytes},
    table::{self, MAX_SIZE, Table, addresses, body},
};
use crate::python::variables::VariableFacts;

/// Most entries of a table that are looked at, many of which may be unused.
const MAX_SCANNED: u64 = 1 << 16;

/// Entries that are read at once.
const AT_ONCE: u64 = 256;

/// The hash of an entry of a set that was removed.
const REMOVED: u64 = u64::MAX;

/// Items: addresses of objects, or of keys and their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Items {
    pub(super) entries: Vec<[u64; 2]>,
    /// Whether there are more.
    pub(super) is_cut: bool,
}

/// The items of a tuple, at most `most`.
pub(super) fn tuple<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    facts: &VariableFacts,
    object: UserAddr,
    most: usize,
) -> Result<Items, Fault> {
    let body = body(layout, object)?;
    let size = memory.word(body)?;
    array(memory, body.field(facts.tuple_items), size, most)
}

/// The items of a list, at most `most`.
pub(super) fn list<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    object: UserAddr,
    most: usize,
) -> Result<Items, Fault> {
    let (start, size) = table::list(memory, body(layout, object)?)?;
    array(memory, start, size, most)
}

fn array<M: UserMemory>(
    memory: &M,
    start: UserAddr,
    size: u64,
    most: usize,
) -> Result<Items, Fault> {
    let found = addresses(memory, start, size, most)?;
    Ok(Items {
        is_cut: size > found.len() as u64,
        entries: found.into_iter().map(|item| [item.0, 0]).collect(),
    })
}

/// The keys and values of a dictionary in the order in which they were inserted, at most `most`.
pub(super) fn dictionary<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    object: UserAddr,
    most: usize,
) -> Result<Items, Fault> {
    let fields = &layout.object;
    let body = body(layout, object)?;
    if fields.instance == InstanceStyle::OPAQUE {
        return old_dictionary(memory, body, most);
    }
    let used = memory.word(body)?;
    if used == 0 {
        return Ok(Items::default());
    }
    if used > MAX_SIZE {
        return Err(Fault);
    }
    let keys = UserAddr(memory.word(object.field(fields.dict_keys))?);
    let values = memory.word(object.field(fields.dict_values))?;
    let table = Table::of_keys(memory, layout, keys)?;
    if values == 0 {
        return table.pairs(memory, used, most);
    }
    split(memory, layout, UserAddr(values), &table, used, most)
}

impl Table {
    /// What `item` makes of the entries, [`None`] for an unused one; `used` items are expected.
    fn items<M: UserMemory>(
        &self,
        memory: &M,
        used: u64,
        most: usize,
        item: impl Fn(&Structure, u64) -> Option<[u64; 2]>,
    ) -> Result<Items, Fault> {
        let mut entries = Vec::new();
        let wanted = used.min(most as u64);
        let mut first = 0;
        while first < self.count && (entries.len() as u64) < wanted {
            if first >= MAX_SCANNED {
                return Ok(Items {
                    entries,
                    is_cut: true,
                });
            }
            let count = (self.count - first).min(AT_ONCE);
            let at = behind(self.start, first * self.entry_bytes);
            let piece = Structure::read(memory, at, count * self.entry_bytes)?;
            for nth in 0..count {
                if let Some(found) = item(&piece, nth * self.entry_bytes)
                    && (entries.len() as u64) < wanted
                {
                    entries.push(found);
                }
            }
            first += count;
        }
        if (entries.len() as u64) < wanted {
            return Err(Fault);
        }
        Ok(Items {
            entries,
            is_cut: used > wanted,
        })
    }

    /// The keys with a value, each before its value.
    fn pairs<M: UserMemory>(&self, memory: &M, used: u64, most: usize) -> Result<Items, Fault> {
        let key = self.key_offset();
        self.items(memory, used, most, |entries, entry| {
            let pair = [entries.word(entry + key), entries.word(entry + key + 8)];
            (!pair.contains(&0)).then_some(pair)
        })
    }
}

/// A dictionary of an instance, whose keys are those of its class and whose values stand apart.
fn split<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    values: UserAddr,
    table: &Table,
    used: u64,
    most: usize,
) -> Result<Items, Fault> {
    let count = table.count;
    let most_values = u8::try_from(count).map_err(|_| Fault)?;
    if used > count {
        return Err(Fault);
    }
    let keys = Structure::read(memory, table.start, count * table.entry_bytes)?;
    let fields = &layout.object;
    let first = values.field(fields.values_head);
    let found = Structure::read(memory, first, count * 8)?;
    let order: Vec<u8> = match fields.instance {
        InstanceStyle::DICT_OFFSET => (0..most_values).collect(),
        InstanceStyle::INLINE_VALUES => {
            // The capacity, then the number of values.
            let head = Structure::read(memory, values, 8)?;
            let order = behind(first, 8 * u64::from(head.byte(0)));
            read_bytes(memory, order, head.byte(1).into())?
        }
        _ => {
            // Before the values, the last one first: bytes before them, the number of values, the order.
            let before = |bytes: u64| UserAddr(values.0.wrapping_sub(bytes));
            let size = read_bytes(memory, before(2), 1)?[0];
            let mut order = read_bytes(memory, before(2 + u64::from(size)), size.into())?;
            order.reverse();
            order
        }
    };
    let mut entries = Vec::new();
    for nth in order {
        let nth = u64::from(nth);
        let key = keys.word(nth * table.entry_bytes + table.key_offset());
        let value = found.word(nth * 8);
        if key != 0 && value != 0 {
            entries.push([key, value]);
        }
    }
    if entries.len() as u64 != used {
        return Err(Fault);
    }
    let is_cut = entries.len() > most;
    entries.truncate(most);
    Ok(Items { entries, is_cut })
}

/// A dictionary of 2.7, in the order of its table, whose entries have the hash of the key before it.
fn old_dictionary<M: UserMemory>(memory: &M, body: UserAddr, most: usize) -> Result<Items, Fault> {
    let (table, used) = Table::with_mask(memory, body, 24)?;
    table.pairs(memory, used, most)
}

/// The members of a set in the order of its table, whose entries have the hash of the key behind it.
pub(super) fn set<M: UserMemory>(
    memory: &M,
    layout: &Layout,
    object: UserAddr,
    most: usize,
) -> Result<Items, Fault> {
    let (table, used) = Table::with_mask(memory, body(layout, object)?, 16)?;
    table.items(memory, used, most, |entries, entry| {
        let (key, hash) = (entries.word(entry), entries.word(entry + 8));
        (key != 0 && hash != REMOVED).then_some([key, 0])
    })
}
