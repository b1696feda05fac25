//! A compact table of a file's functions, by address.
//!
//! Invariants: a function takes 12 bytes, its name stays in the file; the number of functions is
//! limited; of several functions at an address the same one is always found, in whatever order the
//! file has them.

use super::lookup::NoSymbolReason;
use crate::{
    binaries::elf::{self, Binding, Elf, Function, Source, SymbolTable},
    symbolize::demangle,
};

/// Most functions before an address that are searched for one that contains it: functions written in
/// assembly may be nested in others.
const MAX_ENCLOSING: usize = 32;

/// Most names of the same address from which one is chosen.
const MAX_ALIASES: usize = 16;

/// The functions of a file.
#[derive(Debug)]
pub(super) struct FunctionTable {
    /// Base of the entries' addresses.
    start: u64,
    /// By address; entries at the same address have the same rank.
    entries: Box<[Entry]>,
    symbols: SymbolTable,
}

/// A function.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Relative to the table's start.
    address: u32,
    bytes: u32,
    name: u32,
}

/// A function that may be added to the table; the smallest at an address is preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    address: u32,
    /// Local symbols, labels and symbols without a size rank last.
    rank: u8,
    name: u32,
    bytes: u32,
}

impl FunctionTable {
    /// Reads up to `limit` functions of a symbol table; the code of the file starts at `start`.
    pub(super) fn read<S: Source>(
        elf: &Elf<S>,
        symbols: SymbolTable,
        start: u64,
        limit: usize,
    ) -> Result<Self, elf::Error> {
        let mut candidates = Vec::new();
        elf.functions(&symbols, |function| {
            if candidates.len() < limit {
                candidates.extend(Candidate::new(&function, start));
            }
        })?;
        Ok(Self::new(candidates, symbols, start))
    }

    fn new(mut candidates: Vec<Candidate>, symbols: SymbolTable, start: u64) -> Self {
        candidates.sort_unstable();
        Self {
            start,
            entries: best(&candidates),
            symbols,
        }
    }

    /// Whether there are no functions.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Size of the entries in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }

    /// The start and the demangled name of the function that contains `address`.
    pub(super) fn find<S: Source>(
        &self,
        elf: &Elf<S>,
        address: u64,
    ) -> Result<(u64, String), NoSymbolReason> {
        let aliases = self.aliases(address)?;
        let mut names = Vec::new();
        for entry in aliases.iter().take(MAX_ALIASES) {
            let name = elf.function_name(&self.symbols, entry.name);
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
        name.map(|name| (self.start + u64::from(start), demangle::demangle(&name)))
            .ok_or(NoSymbolReason::Malformed)
    }

    /// The function that contains `address`, under all its names.
    fn aliases(&self, address: u64) -> Result<&[Entry], NoSymbolReason> {
        let address = address
            .checked_sub(self.start)
            .ok_or(NoSymbolReason::BeforeFirst)?;
        // Beyond 4 GiB there are no entries.
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
        // A function without a size ends at the next function or at the end of its section.
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

/// The preferred functions at each address; `candidates` are sorted.
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
