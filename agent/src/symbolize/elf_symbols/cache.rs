//! Cache of the symbols of files, in bounded memory. Results of look-ups are not cached here.
//!
//! Invariant: debugging information that cannot be used is read once, however often the symbols of its
//! file are evicted.

use std::collections::{BTreeSet, HashMap};

use super::symbols::ElfSymbols;

/// Most files without usable debugging information that are kept; the number of a file is 4 bytes.
const MAX_WITHOUT_DEBUG_INFO: usize = 4096;

/// Symbols of the most recently used files.
#[derive(Debug)]
pub struct SymbolCache {
    max_bytes: usize,
    files: HashMap<u32, Entry>,
    /// Files whose debugging information exceeds a limit, is malformed or cannot be read; of too many
    /// the oldest are evicted.
    without_debug_info: BTreeSet<u32>,
    /// Counts insertions.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    symbols: Box<ElfSymbols>,
    bytes: usize,
    last_used: u64,
}

impl SymbolCache {
    /// Keeps about `max_bytes` bytes, or the symbols of one file if they are larger.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            files: HashMap::new(),
            without_debug_info: BTreeSet::new(),
            clock: 0,
        }
    }

    /// Takes the symbols of the file with the number `executable` out, to use them.
    pub fn take(&mut self, executable: u32) -> Option<Box<ElfSymbols>> {
        self.files.remove(&executable).map(|entry| entry.symbols)
    }

    /// Whether to read the symbols of a file with its debugging information.
    #[must_use]
    pub fn wants_debug_info(&self, executable: u32) -> bool {
        !self.without_debug_info.contains(&executable)
    }

    /// Inserts the symbols of a file, and evicts others if there are too many.
    pub fn insert(&mut self, executable: u32, symbols: Box<ElfSymbols>) {
        self.clock += 1;
        if symbols.has_unusable_debug_info() {
            self.without_debug_info.insert(executable);
            if self.without_debug_info.len() > MAX_WITHOUT_DEBUG_INFO {
                // Numbers of files increase.
                self.without_debug_info.pop_first();
            }
        }
        let entry = Entry {
            bytes: symbols.bytes(),
            symbols,
            last_used: self.clock,
        };
        self.files.insert(executable, entry);
        self.evict(executable);
    }

    /// Removes the symbols of files that are not to be kept.
    pub fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.files.retain(|executable, _| is_kept(*executable));
    }

    /// Removes the symbols of all files.
    pub fn clear(&mut self) {
        self.files.clear();
    }

    /// Approximate size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.files.values().map(|entry| entry.bytes).sum()
    }

    /// Frees what is cheapest to read again first: open sections, then cached units, then the tables
    /// of the files that were not used for the longest time, except `kept`.
    fn evict(&mut self, kept: u32) {
        self.shrink_each(ElfSymbols::close_sections);
        self.shrink_each(ElfSymbols::shrink);
        for executable in self.least_recently_used() {
            if self.bytes() <= self.max_bytes {
                break;
            }
            if executable != kept {
                self.files.remove(&executable);
            }
        }
    }

    /// Shrinks files until there is room, the least recently used first.
    fn shrink_each(&mut self, shrink: impl Fn(&mut ElfSymbols)) {
        for executable in self.least_recently_used() {
            if self.bytes() <= self.max_bytes {
                break;
            }
            if let Some(entry) = self.files.get_mut(&executable) {
                shrink(&mut entry.symbols);
                entry.bytes = entry.symbols.bytes();
            }
        }
    }

    /// The numbers of the files, the least recently used first.
    fn least_recently_used(&self) -> Vec<u32> {
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_unstable_by_key(|(_, entry)| entry.last_used);
        files
            .into_iter()
            .map(|(executable, _)| *executable)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_WITHOUT_DEBUG_INFO, SymbolCache};
    use crate::{
        binaries::elf::Elf,
        symbolize::elf_symbols::{ElfSymbols, SymbolLimits},
    };
    use std::fs::File;

    fn load(has_inlines: bool) -> Box<ElfSymbols> {
        load_with(&SymbolLimits {
            inlines: has_inlines,
            ..SymbolLimits::default()
        })
    }

    fn load_with(limits: &SymbolLimits) -> Box<ElfSymbols> {
        let elf = Elf::read(File::open("/proc/self/exe").unwrap()).unwrap();
        Box::new(ElfSymbols::load(elf, None, limits))
    }

    /// With debugging information that exceeds a limit.
    fn unusable() -> Box<ElfSymbols> {
        let mut symbols = load_with(&SymbolLimits {
            debug_bytes_at_once: 1,
            ..SymbolLimits::default()
        });
        symbols.find(address());
        assert!(symbols.has_unusable_debug_info());
        symbols
    }

    /// An address of the standard library, which has debugging information.
    fn address() -> u64 {
        let elf = Elf::read(File::open("/proc/self/exe").unwrap()).unwrap();
        let function = elf.symbol("rust_eh_personality").unwrap();
        function.unwrap().address
    }

    #[test]
    fn the_least_recently_used_file_is_evicted() {
        let bytes = load(false).bytes();
        // Room for two.
        let mut cache = SymbolCache::new(bytes * 5 / 2);
        let mut loads = Vec::new();
        for executable in [1, 2, 1, 3, 1, 2] {
            let symbols = cache.take(executable).unwrap_or_else(|| {
                loads.push(executable);
                load(false)
            });
            cache.insert(executable, symbols);
            assert!(cache.bytes() <= bytes * 5 / 2);
        }
        assert_eq!(loads, [1, 2, 3, 2]);
    }

    #[test]
    fn tables_are_not_evicted_for_open_sections() {
        let mut symbols = load(true);
        symbols.find(address());
        let open = symbols.bytes();
        symbols.shrink();
        let closed = symbols.bytes();
        assert!(closed < open);
        // No room for the sections of two.
        let most = 2 * closed + (open - closed) / 2;
        let mut cache = SymbolCache::new(most);
        for executable in [1, 2, 1] {
            let mut symbols = cache.take(executable).unwrap_or_else(|| load(true));
            symbols.find(address());
            cache.insert(executable, symbols);
            assert!(cache.bytes() <= most);
        }
        assert!(cache.take(1).is_some() && cache.take(2).is_some());
    }

    #[test]
    fn unusable_debugging_information_is_read_once() {
        let mut cache = SymbolCache::new(1 << 20);
        assert!(cache.wants_debug_info(1));
        cache.insert(1, unusable());
        cache.clear();
        assert!(cache.take(1).is_none());
        assert!(!cache.wants_debug_info(1) && cache.wants_debug_info(2));
        // Read again without it, it stays so.
        cache.insert(1, load(false));
        assert!(!cache.wants_debug_info(1));
    }

    #[test]
    fn the_files_without_debugging_information_are_bounded() {
        let mut cache = SymbolCache::new(0);
        let most = u32::try_from(MAX_WITHOUT_DEBUG_INFO).unwrap();
        cache.without_debug_info.extend(1..=most);
        cache.insert(most + 1, unusable());
        assert_eq!(cache.without_debug_info.len(), MAX_WITHOUT_DEBUG_INFO);
        assert!(cache.wants_debug_info(1) && !cache.wants_debug_info(most + 1));
    }
}
