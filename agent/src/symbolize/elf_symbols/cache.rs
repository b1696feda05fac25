//! The symbols of several files, in bounded memory.
//!
//! What was found of an address is not kept here: who asks knows whether it asks again.

use std::collections::HashMap;

use super::{lookup::SymbolLookup, symbols::ElfSymbols};

/// The symbols of the files that were asked for last.
#[derive(Debug)]
pub struct SymbolCache {
    most_bytes: usize,
    files: HashMap<u32, Entry>,
    /// Counts what is asked for.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    symbols: ElfSymbols,
    bytes: usize,
    last_used: u64,
}

impl SymbolCache {
    /// Keeps about `most_bytes` bytes, or the symbols of one file if they are larger.
    #[must_use]
    pub fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            files: HashMap::new(),
            clock: 0,
        }
    }

    /// What is at each of `addresses` of the file with the number `executable`; `load` reads its
    /// symbols, if they are not here.
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

    /// Bytes of memory that all of it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.files.values().map(|entry| entry.bytes).sum()
    }

    /// Makes room: first of all goes what can be read again, then the files that were not asked
    /// for the longest.
    fn evict(&mut self, kept: u32) {
        if self.bytes() <= self.most_bytes {
            return;
        }
        for (executable, entry) in &mut self.files {
            if *executable != kept {
                entry.symbols.shrink();
                entry.bytes = entry.symbols.bytes();
            }
        }
        while self.bytes() > self.most_bytes {
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
    fn files_that_were_not_asked_for_go_first() {
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
        // The one to find out the size, and 1, 2, 3 and 2 once more.
        assert_eq!(loads.get(), 5);
    }
}
