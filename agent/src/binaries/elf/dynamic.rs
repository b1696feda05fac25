//! The dynamic section: soname and exported symbols.
//!
//! It is found through the program headers, as the dynamic linker does, so that section headers are
//! not needed. A symbol is looked up in the hash table, which takes a few small reads however large
//! the library is.

use goblin::elf::program_header::PT_DYNAMIC;

use super::{
    dynamic_entries::Dynamic,
    error::Error,
    file::Elf,
    numbers::u32_at,
    source::Source,
    symbols::{SYMBOL_BYTES, Symbol, SymbolTable, defined},
};

/// Most bytes of a dynamic section.
const MAX_DYNAMIC: u64 = 1 << 20;

/// Most bytes of the buckets of a hash table.
const MAX_BUCKETS: u64 = 16 << 20;

/// Most entries of a chain that a look-up visits.
const MAX_CHAIN: usize = 1 << 12;

impl<S: Source> Elf<S> {
    /// The name by which other files depend on it (`DT_SONAME`).
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn soname(&self) -> Result<Option<String>, Error> {
        let dynamic = self.dynamic()?;
        let (Some(names), Some(soname)) = (dynamic.names, dynamic.soname) else {
            return Ok(None);
        };
        let name = self.name_in_memory(names.wrapping_add(soname))?;
        Ok(name.map(|name| String::from_utf8_lossy(&name).into_owned()))
    }

    /// The exported symbol with this name.
    ///
    /// # Errors
    ///
    /// When the tables cannot be read.
    pub fn exported_symbol(&self, name: &str) -> Result<Option<Symbol>, Error> {
        let dynamic = self.dynamic()?;
        let (Some(symbols), Some(names)) = (dynamic.symbols, dynamic.names) else {
            return Ok(None);
        };
        let tables = ExportedSymbols {
            elf: self,
            symbols,
            names,
        };
        match (dynamic.gnu_hash, dynamic.hash) {
            (Some(table), _) => tables.look_up_gnu(table, name),
            (None, Some(table)) => tables.look_up(table, name),
            (None, None) => Ok(None),
        }
    }

    /// The table of exported symbols, found without section headers.
    pub(super) fn dynamic_symbols(&self) -> Result<Option<SymbolTable>, Error> {
        let dynamic = self.dynamic()?;
        let (Some(symbols), Some(names), Some(names_bytes)) =
            (dynamic.symbols, dynamic.names, dynamic.names_bytes)
        else {
            return Ok(None);
        };
        let tables = ExportedSymbols {
            elf: self,
            symbols,
            names,
        };
        let count = match (dynamic.hash, dynamic.gnu_hash) {
            // It has a chain entry for each symbol.
            (Some(table), _) => tables.number(table.wrapping_add(4))?.unwrap_or(0),
            (None, Some(table)) => tables.count_gnu(table)?,
            (None, None) => 0,
        };
        let bytes = u64::from(count) * SYMBOL_BYTES as u64;
        let place = |address, bytes| self.segments.file_offset(address, bytes);
        let offsets = place(symbols, bytes).zip(place(names, names_bytes));
        Ok(offsets.map(|(offset, names_offset)| SymbolTable {
            offset,
            bytes,
            names_offset,
            names_bytes,
        }))
    }

    /// Address and bytes of each table of relocations.
    pub(super) fn relocation_tables(&self) -> Result<Vec<(u64, u64)>, Error> {
        let dynamic = self.dynamic()?;
        let tables = [
            dynamic.relocations.zip(dynamic.relocations_bytes),
            dynamic.plt_relocations.zip(dynamic.plt_relocations_bytes),
        ];
        Ok(tables.into_iter().flatten().collect())
    }

    /// The name of an exported or imported symbol, by its index; [`None`] where there is none.
    pub(super) fn dynamic_symbol_name(&self, index: u32) -> Result<Option<Vec<u8>>, Error> {
        let dynamic = self.dynamic()?;
        let (Some(symbols), Some(names)) = (dynamic.symbols, dynamic.names) else {
            return Ok(None);
        };
        let mut name = [0; 4];
        let offset = u64::from(index) * SYMBOL_BYTES as u64;
        if !self.initial_bytes(symbols.wrapping_add(offset), &mut name)? {
            return Ok(None);
        }
        self.name_in_memory(names.wrapping_add(u32::from_le_bytes(name).into()))
    }

    fn dynamic(&self) -> Result<Dynamic, Error> {
        if let Some(known) = self.dynamic.get() {
            return Ok(*known);
        }
        let dynamic = self.read_dynamic()?;
        Ok(*self.dynamic.get_or_init(|| dynamic))
    }

    fn read_dynamic(&self) -> Result<Dynamic, Error> {
        let mut headers = self.headers.iter();
        let Some(header) = headers.find(|header| header.p_type == PT_DYNAMIC) else {
            return Ok(Dynamic::default());
        };
        let entries = self.bytes_at(
            "dynamic section",
            header.p_offset,
            header.p_filesz,
            MAX_DYNAMIC,
        )?;
        Ok(Dynamic::parse(&entries))
    }

    /// The zero-terminated name at an address.
    fn name_in_memory(&self, address: u64) -> Result<Option<Vec<u8>>, Error> {
        match self.segments.file_offset(address, 1) {
            Some(offset) => self.name_at(offset).map(Some),
            None => Ok(None),
        }
    }
}

/// The tables of exported symbols.
struct ExportedSymbols<'a, S> {
    elf: &'a Elf<S>,
    symbols: u64,
    names: u64,
}

impl<S: Source> ExportedSymbols<'_, S> {
    /// Looks a name up in the GNU hash table (`DT_GNU_HASH`).
    fn look_up_gnu(&self, table: u64, name: &str) -> Result<Option<Symbol>, Error> {
        let number = |at: u64| self.number(table.wrapping_add(at));
        let (Some(buckets), Some(first_hashed), Some(bloom_words)) =
            (number(0)?, number(4)?, number(8)?)
        else {
            return Ok(None);
        };
        if buckets == 0 {
            return Ok(None);
        }
        let hash = gnu_hash(name);
        let buckets_start = 16 + 8 * u64::from(bloom_words);
        let chains_start = buckets_start + 4 * u64::from(buckets);
        let first = number(buckets_start + 4 * u64::from(hash % buckets))?;
        let Some(first) = first.filter(|first| *first >= first_hashed) else {
            return Ok(None);
        };
        for index in (first..=u32::MAX).take(MAX_CHAIN) {
            let Some(entry) = number(chains_start + 4 * u64::from(index - first_hashed))? else {
                break;
            };
            if entry | 1 == hash | 1
                && let Some(symbol) = self.symbol(index, name)?
            {
                return Ok(defined(&symbol));
            }
            if entry & 1 == 1 {
                break;
            }
        }
        Ok(None)
    }

    /// Number of symbols, by the GNU hash table: they are sorted by bucket, so that the end of the
    /// last chain is the end of the symbols.
    fn count_gnu(&self, table: u64) -> Result<u32, Error> {
        let number = |at: u64| self.number(table.wrapping_add(at));
        let (Some(buckets), Some(first_hashed), Some(bloom_words)) =
            (number(0)?, number(4)?, number(8)?)
        else {
            return Ok(0);
        };
        let buckets_start = 16 + 8 * u64::from(bloom_words);
        let buckets_bytes = 4 * u64::from(buckets);
        let address = table.wrapping_add(buckets_start);
        let Some(offset) = self.elf.segments.file_offset(address, buckets_bytes) else {
            return Ok(0);
        };
        let starts = self
            .elf
            .bytes_at("hash table", offset, buckets_bytes, MAX_BUCKETS)?;
        let (starts, _) = starts.as_chunks();
        let last = starts
            .iter()
            .map(|bucket| u32::from_le_bytes(*bucket))
            .max();
        let last = last.unwrap_or(0).max(first_hashed);
        let chains_start = buckets_start + buckets_bytes;
        for index in (last..u32::MAX).take(MAX_CHAIN) {
            let entry = number(chains_start + 4 * u64::from(index - first_hashed))?;
            // The lowest bit marks the end of a chain.
            if entry.is_none_or(|entry| entry & 1 == 1) {
                return Ok(index + u32::from(entry.is_some()));
            }
        }
        Ok(last)
    }

    /// Looks a name up in the System V hash table (`DT_HASH`).
    fn look_up(&self, table: u64, name: &str) -> Result<Option<Symbol>, Error> {
        let number = |index: u64| self.number(table.wrapping_add(4 * index));
        let Some(buckets) = number(0)?.filter(|buckets| *buckets != 0) else {
            return Ok(None);
        };
        let mut next = number(2 + u64::from(hash(name) % buckets))?;
        for _ in 0..MAX_CHAIN {
            let Some(index) = next.filter(|index| *index != 0) else {
                break;
            };
            if let Some(symbol) = self.symbol(index, name)? {
                return Ok(defined(&symbol));
            }
            next = number(2 + u64::from(buckets) + u64::from(index))?;
        }
        Ok(None)
    }

    /// The symbol at `index`, if it has this name.
    fn symbol(&self, index: u32, name: &str) -> Result<Option<[u8; SYMBOL_BYTES]>, Error> {
        let mut symbol = [0; SYMBOL_BYTES];
        let offset = u64::from(index) * SYMBOL_BYTES as u64;
        if !self
            .elf
            .initial_bytes(self.symbols.wrapping_add(offset), &mut symbol)?
        {
            return Ok(None);
        }
        let name_offset = u32_at(&symbol, 0);
        let found = self
            .elf
            .name_in_memory(self.names.wrapping_add(name_offset.into()))?;
        Ok((found.as_deref() == Some(name.as_bytes())).then_some(symbol))
    }

    fn number(&self, address: u64) -> Result<Option<u32>, Error> {
        let mut number = [0; 4];
        let is_there = self.elf.initial_bytes(address, &mut number)?;
        Ok(is_there.then(|| u32::from_le_bytes(number)))
    }
}

/// Hash function of the GNU hash table.
fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| {
        hash.wrapping_mul(33).wrapping_add(byte.into())
    })
}

/// Hash function of the System V hash table.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        (hash ^ (hash & 0xf000_0000) >> 24) & 0x0fff_ffff
    })
}

#[cfg(test)]
mod tests {
    use super::{gnu_hash, hash};

    #[test]
    fn hashes_are_as_specified() {
        assert_eq!(gnu_hash("printf"), 0x156b_2bb8);
        assert_eq!(hash("printf"), 0x0779_05a6);
        assert_eq!(gnu_hash(""), 5381);
        assert_eq!(hash("_PyRuntime_and_a_long_name") >> 28, 0);
    }
}
