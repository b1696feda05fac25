//! A file's functions by address, in little memory.
//!
//! Invariants: 12 bytes for a function and none for its name, which stays in the file; at most
//! as many functions as the limits say; of functions at the same address always the same one is
//! found, in whatever order the file has them.

use super::lookup::NoSymbolReason;
use crate::{
    binaries::elf::{self, Binding, Elf, Function, GoTable, Source, SymbolTable},
    symbolize::demangle,
};

/// Most functions before an address that are looked at for one that reaches up to it: functions
/// written in assembler lie inside others.
const MAX_ENCLOSING: usize = 32;

/// Most names for the same address from which one is chosen.
const MAX_ALIASES: usize = 16;

/// The functions of a file.
#[derive(Debug)]
pub(super) struct FunctionTable {
    /// Where addresses are counted from.
    start: u64,
    /// By address; those at the same address are equally good.
    entries: Box<[Entry]>,
    place: SymbolTable,
    /// Whether the names are those of Go.
    is_go: bool,
}

/// A function.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// From the table's start.
    address: u32,
    bytes: u32,
    name: u32,
}

/// A function on its way into the table; the smallest at an address is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    address: u32,
    /// What nobody sees, labels and what has no size come last.
    rank: u8,
    name: u32,
    bytes: u32,
}

impl FunctionTable {
    /// Reads a table, up to `limit` functions of it, of a file whose code begins at `start`.
    pub(super) fn read<S: Source>(
        elf: &Elf<S>,
        place: SymbolTable,
        start: u64,
        limit: usize,
    ) -> Result<Self, elf::Error> {
        let mut candidates = Vec::new();
        elf.functions(&place, |function| {
            if candidates.len() < limit {
                candidates.extend(Candidate::new(&function, start));
            }
        })?;
        Ok(Self::new(candidates, place, start))
    }

    /// The same of what the Go linker tells of its functions.
    pub(super) fn of_go(table: &GoTable, start: u64, limit: usize) -> Self {
        let candidates = table
            .functions()
            .filter_map(|function| Candidate::new(&function.symbol(), start))
            .take(limit);
        Self {
            is_go: true,
            ..Self::new(candidates.collect(), table.names(), start)
        }
    }

    fn new(mut candidates: Vec<Candidate>, place: SymbolTable, start: u64) -> Self {
        candidates.sort_unstable();
        Self {
            start,
            entries: best(&candidates),
            place,
            is_go: false,
        }
    }

    /// Whether there are no functions.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }

    /// The name of the function that `address` is in as its reader knows it, and where that starts.
    pub(super) fn find<S: Source>(
        &self,
        elf: &Elf<S>,
        address: u64,
    ) -> Result<(u64, String), NoSymbolReason> {
        let aliases = self.aliases(address)?;
        let mut names = Vec::new();
        for entry in aliases.iter().take(MAX_ALIASES) {
            let name = elf.function_name(&self.place, entry.name);
            names.push(name.map_err(|error| NoSymbolReason::of(&error))?);
        }
        names.retain(|name| !name.is_empty());
        names.sort_unstable();
        // `read` rather than `__read`, `malloc` rather than `__libc_malloc`.
        let name = names.into_iter().min_by_key(|name| {
            let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
            (underscores, name.len())
        });
        let start = aliases.first().map_or(0, |entry| entry.address);
        let readable = if self.is_go {
            demangle::go_name
        } else {
            demangle::demangle
        };
        name.map(|name| (self.start + u64::from(start), readable(&name)))
            .ok_or(NoSymbolReason::Malformed)
    }

    /// The function that `address` is in, under all its names.
    fn aliases(&self, address: u64) -> Result<&[Entry], NoSymbolReason> {
        let address = address
            .checked_sub(self.start)
            .ok_or(NoSymbolReason::BeforeFirst)?;
        // What is not within 4 GiB is behind all of them.
        let address = u32::try_from(address).map_err(|_| NoSymbolReason::Gap)?;
        let entries = &self.entries;
        let before = entries.partition_point(|entry| entry.address <= address);
        if before == 0 {
            return Err(NoSymbolReason::BeforeFirst);
        }
        let found = entries[..before]
            .iter()
            .rev()
            .take(MAX_ENCLOSING)
            .find(|entry| address - entry.address < entry.bytes)
            .ok_or(NoSymbolReason::Gap)?;
        let first = entries.partition_point(|entry| entry.address < found.address);
        let end = entries.partition_point(|entry| entry.address <= found.address);
        Ok(&entries[first..end])
    }
}

impl Candidate {
    fn new(function: &Function, start: u64) -> Option<Self> {
        let address = function.address.checked_sub(start)?.try_into().ok()?;
        // Without a size it reaches to the next function, but not out of its section.
        let bytes = match function.bytes {
            0 => function.section_end?.saturating_sub(function.address),
            bytes => bytes,
        };
        let is_local = function.binding == Binding::Local;
        let has_size = function.bytes != 0;
        Some(Self {
            address,
            rank: u8::from(is_local) << 2 | u8::from(function.is_label) << 1 | u8::from(!has_size),
            name: function.name,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        })
    }

    fn has_size(&self) -> bool {
        self.rank & 1 == 0
    }
}

/// The best functions at each address; `candidates` are sorted.
fn best(candidates: &[Candidate]) -> Box<[Entry]> {
    let mut entries = Vec::new();
    let mut groups = candidates
        .chunk_by(|one, other| one.address == other.address)
        .peekable();
    while let Some(group) = groups.next() {
        let room = groups
            .peek()
            .and_then(|next| next.first())
            .map(|next| next.address - group[0].address);
        let mut last = None;
        for candidate in group {
            // Some linkers write a symbol twice.
            if candidate.rank != group[0].rank || last == Some(candidate.name) {
                continue;
            }
            last = Some(candidate.name);
            let bytes = match room {
                Some(room) if !candidate.has_size() => candidate.bytes.min(room),
                _ => candidate.bytes,
            };
            entries.push(Entry {
                address: candidate.address,
                bytes,
                name: candidate.name,
            });
        }
    }
    entries.into_boxed_slice()
}
