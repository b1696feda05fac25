//! Cache of the symbols of files, in bounded memory. Results of look-ups are not cached.

use std::collections::HashMap;

use super::{lookup::SymbolLookup, symbols::ElfSymbols};

/// Symbols of the most recently used files.
#[derive(Debug)]
pub struct SymbolCache {
    max_bytes: usize,
    files: HashMap<u32, Entry>,
    /// Counts look-ups.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    symbols: ElfSymbols,
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
            clock: 0,
        }
    }

    /// Looks up `addresses` of the file with the number `executable`; `load` reads its symbols if they
    /// are not cached.
    pub fn find_all(
        &mut self,
        executable: u32,
        addresses: &[u64],
        load: impl FnOnce() -> ElfSymbols,
    ) -> Vec<SymbolLookup> {
        self.clock += 1;
        let entry = self.files.entry(executable).or_insert_with(|| Entry {
            symbols: load(),
            bytes: 0,
            last_used: 0,
        });
        let found = entry.symbols.find_all(addresses);
        entry.bytes = entry.symbols.bytes();
        entry.last_used = self.clock;
        self.evict(executable);
        found
    }

    /// Approximate size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.files.values().map(|entry| entry.bytes).sum()
    }

    /// Evicts open sections of debugging information first, then the least recently used files, but not
    /// `kept`.
    fn evict(&mut self, kept: u32) {
        if self.bytes() <= self.max_bytes {
            return;
        }
        for (executable, entry) in &mut self.files {
            if *executable != kept {
                entry.symbols.shrink();
                entry.bytes = entry.symbols.bytes();
            }
        }
        while self.bytes() > self.max_bytes {
            let others = self.files.iter().filter(|(file, _)| **file != kept);
            let oldest = others.min_by_key(|(_, entry)| entry.last_used);
            let Some(oldest) = oldest.map(|(file, _)| *file) else {
                break;
            };
            self.files.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SymbolCache;
    use crate::{
        binaries::elf::Elf,
        symbolize::elf_symbols::{ElfSymbols, SymbolLimits, SymbolLookup},
    };
    use std::{cell::Cell, fs::File};

    #[test]
    fn the_least_recently_used_file_is_evicted() {
        let loads = Cell::new(0);
        let load = || {
            loads.set(loads.get() + 1);
            let file = File::open("/proc/self/exe").unwrap();
            let limits = SymbolLimits {
                inlines: false,
                ..SymbolLimits::default()
            };
            ElfSymbols::load(Elf::read(file).unwrap(), None, &limits)
        };
        let bytes = load().bytes();
        let address = Elf::read(File::open("/proc/self/exe").unwrap())
            .unwrap()
            .symbol("main")
            .unwrap()
            .unwrap()
            .address;
        // Room for two.
        let mut cache = SymbolCache::new(bytes * 5 / 2);
        for executable in [1, 2, 1, 3, 1, 2] {
            let found = cache.find_all(executable, &[address, 0], load);
            assert!(matches!(&found[0], SymbolLookup::Known(frames) if frames[0].name == "main"));
            assert!(matches!(found[1], SymbolLookup::Unknown(_)));
            assert!(cache.bytes() <= bytes * 5 / 2);
        }
        // Once for the size, then 1, 2, 3 and again 2.
        assert_eq!(loads.get(), 5);
    }
}
