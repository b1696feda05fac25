//! Cache of the results of look-ups in files, by file and address, across windows and series.
//!
//! Invariants: strings are in memory once, however many results have them; the cache has two
//! generations and takes about as many bytes as it was given: the results that were not used for the
//! longest time are evicted first.

use std::sync::Arc;

use foldhash::HashSet;

use super::{
    elf_symbols::{AddressLookup, NoSymbolReason, SymbolFrame, SymbolLookup},
    symbolized::NativeFunction,
};
use crate::{cache::GenerationalCache, profile::UnsymbolizedReason};

/// An address of a file: the number of the file, and the address before the load bias is added.
pub(super) type FileAddress = (u32, u64);

/// Approximate bytes of a string besides its contents: two counters, and its place in the set.
const STRING_BYTES: usize = 48;

/// The result of looking up an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NativeResult {
    /// The functions, the innermost first; or why there are none.
    pub(super) functions: Result<Arc<[NativeFunction]>, UnsymbolizedReason>,
    /// Whether nothing was left out: inlined functions, files and lines.
    pub(super) is_complete: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct ResultCache {
    max_bytes: usize,
    results: GenerationalCache<FileAddress, NativeResult>,
    /// Bytes of the results of the current generation, without strings.
    current_bytes: usize,
    /// Bytes of the results of the previous generation, without strings.
    previous_bytes: usize,
    strings: HashSet<Arc<str>>,
    string_bytes: usize,
}

impl ResultCache {
    /// Keeps about `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            results: GenerationalCache::default(),
            current_bytes: 0,
            previous_bytes: 0,
            strings: HashSet::default(),
            string_bytes: 0,
        }
    }

    /// The result of an address.
    pub(super) fn get(&mut self, address: FileAddress) -> Option<&NativeResult> {
        if self.results.renew(&address) {
            let bytes = self.results.get(&address).map_or(0, bytes);
            self.current_bytes += bytes;
            self.previous_bytes = self.previous_bytes.saturating_sub(bytes);
        }
        self.results.get(&address)
    }

    /// Whether there is a result of an address from which nothing was left out.
    pub(super) fn is_complete(&mut self, address: FileAddress) -> bool {
        self.get(address).is_some_and(|result| result.is_complete)
    }

    /// Inserts a result, or replaces the one of the same address.
    pub(super) fn insert(&mut self, address: FileAddress, found: AddressLookup) {
        let result = NativeResult {
            functions: self.functions(found.symbols),
            is_complete: found.is_complete,
        };
        // The one that is replaced is in the current generation then.
        let replaced = self.get(address).map_or(0, bytes);
        self.current_bytes = self.current_bytes.saturating_sub(replaced) + bytes(&result);
        self.results.insert(address, result);
        if self.current_bytes > self.max_bytes / 4 || self.string_bytes > self.max_bytes / 2 {
            self.rotate();
        }
    }

    /// Approximate size in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.current_bytes + self.previous_bytes + self.string_bytes
    }

    /// Starts a new generation.
    pub(super) fn rotate(&mut self) {
        self.results.rotate();
        self.previous_bytes = std::mem::take(&mut self.current_bytes);
        self.strings.retain(|text| Arc::strong_count(text) > 1);
        self.string_bytes = self.strings.iter().map(|text| string_bytes(text)).sum();
    }

    fn functions(
        &mut self,
        symbols: SymbolLookup,
    ) -> Result<Arc<[NativeFunction]>, UnsymbolizedReason> {
        match symbols {
            SymbolLookup::Known(frames) => {
                Ok(frames.iter().map(|frame| self.function(frame)).collect())
            }
            SymbolLookup::Unknown(reason) => Err(match reason {
                NoSymbolReason::NoSymbols => UnsymbolizedReason::NoSymbols,
                NoSymbolReason::BeforeFirst | NoSymbolReason::Gap => UnsymbolizedReason::NoSymbol,
                NoSymbolReason::Unreadable | NoSymbolReason::Malformed => {
                    UnsymbolizedReason::Unreadable
                }
            }),
        }
    }

    fn function(&mut self, frame: &SymbolFrame) -> NativeFunction {
        NativeFunction {
            name: self.string(&frame.name),
            file: frame.file.as_deref().map(|file| self.string(file)),
            line: frame.line,
        }
    }

    fn string(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.strings.get(text) {
            return Arc::clone(known);
        }
        let text = Arc::<str>::from(text);
        self.string_bytes += string_bytes(&text);
        self.strings.insert(Arc::clone(&text));
        text
    }
}

fn string_bytes(text: &str) -> usize {
    text.len() + STRING_BYTES
}

/// Approximate bytes of a result without its strings, with the free room of a map.
fn bytes(result: &NativeResult) -> usize {
    let functions = result.functions.as_ref().map_or(0, |it| size_of_val(&**it));
    2 * size_of::<(FileAddress, NativeResult)>() + functions
}

#[cfg(test)]
mod tests {
    use super::ResultCache;
    use crate::symbolize::elf_symbols::{AddressLookup, SymbolFrame, SymbolLookup};
    use std::sync::Arc;

    fn found(name: &str) -> AddressLookup {
        AddressLookup {
            symbols: SymbolLookup::Known(vec![SymbolFrame {
                name: name.to_owned(),
                file: Some("/src/a.c".to_owned()),
                line: None,
                first_line: None,
            }]),
            is_complete: true,
        }
    }

    #[test]
    fn strings_are_in_memory_once() {
        let mut cache = ResultCache::new(1 << 20);
        for address in 0..100 {
            cache.insert((1, address), found("work"));
        }
        let mut function = |address| {
            let result = cache.get((1, address)).unwrap();
            result.functions.as_ref().unwrap()[0].clone()
        };
        assert!(Arc::ptr_eq(&function(1).name, &function(99).name));
        assert_eq!(cache.strings.len(), 2);
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_in_use() {
        let max = 64 << 10;
        let mut cache = ResultCache::new(max);
        cache.insert((1, 0), found("in use"));
        for address in 1..10_000 {
            cache.insert((2, address), found(&format!("function {address}")));
            assert!(cache.get((1, 0)).is_some(), "{address}");
            assert!(cache.bytes() <= max + 1024, "{}", cache.bytes());
        }
        assert!(cache.get((2, 1)).is_none());
        assert!(cache.get((2, 9_999)).is_some());
    }

    #[test]
    fn a_result_is_replaced() {
        let mut cache = ResultCache::new(1 << 20);
        cache.insert((1, 0), found("one"));
        let bytes = cache.bytes();
        cache.insert((1, 0), found("two"));
        assert_eq!(cache.bytes() - bytes, "two".len() + super::STRING_BYTES);
        cache.rotate();
        let result = cache.get((1, 0)).unwrap();
        assert_eq!(&*result.functions.as_ref().unwrap()[0].name, "two");
        assert_eq!(cache.bytes(), bytes);
    }
}
