//! The functions of a file, from its symbols and its debugging information.

use std::{fmt, num::NonZeroU32, ops::Range, time::Duration};

use super::{
    dwarf,
    go::GoFunctions,
    lookup::{AddressLookup, NoSymbolReason, SymbolFrame, SymbolLookup},
    table::FunctionTable,
};
#[cfg(any(test, feature = "testing"))]
use crate::symbolize::budget::Allowance;
use crate::{
    binaries::elf::{self, DebugFiles, Elf, PltStub, Shared, Source, Which},
    python::text,
    symbolize::{budget::Budget, demangle},
};

/// Limits of what is read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolLimits {
    /// Most functions that are kept, at 12 bytes each.
    pub functions: usize,
    /// Whether debugging information is used, for inlined functions, files and lines.
    pub inlines: bool,
    /// Most bytes of debugging information in memory while it is read, with decompressed sections.
    pub debug_bytes_at_once: usize,
    /// Most bytes of results of it that are kept between look-ups.
    pub debug_bytes_kept: usize,
}

impl Default for SymbolLimits {
    fn default() -> Self {
        Self {
            functions: 2_000_000,
            inlines: true,
            debug_bytes_at_once: 64 << 20,
            debug_bytes_kept: 2 << 20,
        }
    }
}

/// Status of the debugging information of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugInfoStatus {
    /// Disabled by [`SymbolLimits::inlines`].
    NotWanted,
    /// There is no debugging information.
    Absent,
    /// In use.
    Used,
    /// It exceeds a limit.
    TooLarge,
    /// It could not be read.
    Unreadable,
    /// It is malformed.
    Malformed,
}

/// What a byte of `.debug_info` costs when it is opened, in nanoseconds: 181 MB of a C++ program, which are 412 MB
/// decompressed, took 2.5 s on an AMD EPYC.
const NS_PER_COMPRESSED_BYTE: u64 = 14;
const NS_PER_BYTE: u64 = 1;

/// The symbols of a file.
pub struct ElfSymbols {
    own: Option<Elf<Shared>>,
    /// The separate debug file.
    debug: Option<Elf<Shared>>,
    /// The supplementary file that several debug files share (`dwz`).
    shared: Option<Elf<Shared>>,
    /// The ELF file embedded in the file (`.gnu_debugdata`).
    embedded: Option<Elf<Shared>>,
    /// Addresses of the file's code.
    code: Range<u64>,
    /// Functions in Go have the same names, files and lines with and without symbols and debugging
    /// information; functions in other languages are in those.
    go: Option<GoFunctions>,
    tables: Vec<(SymbolFile, FunctionTable)>,
    /// Stubs of the procedure linkage table, which have no symbols.
    stubs: Vec<PltStub>,
    info: Result<(SymbolFile, dwarf::DwarfInfo), DebugInfoStatus>,
    /// Why there are no functions, where there are none.
    reason: NoSymbolReason,
}

/// The file that contains symbols or debugging information.
#[derive(Clone, Copy, Debug)]
enum SymbolFile {
    Own,
    Debug,
    Embedded,
}

impl ElfSymbols {
    /// Reads the symbols of a file; a separate debug file is searched only if symbols or debugging
    /// information are missing.
    pub fn load<S: Source + Send + Sync + 'static>(
        elf: Elf<S>,
        debug_files: Option<DebugFiles<'_>>,
        limits: &SymbolLimits,
    ) -> Self {
        let has_info = elf.has_debug_info() || !limits.inlines;
        let debug = match debug_files {
            Some(files) if !has_info || elf.symbol_table(Which::All).is_none() => files.find(&elf),
            _ => None,
        };
        let info = if !limits.inlines {
            Err(DebugInfoStatus::NotWanted)
        } else if elf.has_debug_info() {
            Ok(SymbolFile::Own)
        } else if debug.as_ref().is_some_and(Elf::has_debug_info) {
            Ok(SymbolFile::Debug)
        } else {
            Err(DebugInfoStatus::Absent)
        };
        let shared = debug_files.and_then(|files| match (info, &debug) {
            (Ok(SymbolFile::Own), _) => files.find_shared(&elf),
            (Ok(SymbolFile::Debug), Some(debug)) => files.find_shared(debug),
            _ => None,
        });
        let code = elf.code().unwrap_or(0..u64::MAX);
        let bounds = dwarf::DwarfLimits {
            at_once: limits.debug_bytes_at_once,
            kept: limits.debug_bytes_kept,
        };
        let mut symbols = Self {
            own: Some(elf.share()),
            debug: debug.map(Elf::share),
            shared: shared.map(Elf::share),
            embedded: None,
            go: None,
            tables: Vec::new(),
            stubs: Vec::new(),
            info: info.map(|origin| (origin, dwarf::DwarfInfo::new(code.clone(), bounds))),
            code,
            reason: NoSymbolReason::NoSymbols,
        };
        symbols.read_tables(limits);
        symbols
    }

    /// A file without symbols.
    #[must_use]
    pub fn none(reason: NoSymbolReason) -> Self {
        Self {
            own: None,
            debug: None,
            shared: None,
            embedded: None,
            code: 0..0,
            go: None,
            tables: Vec::new(),
            stubs: Vec::new(),
            info: Err(DebugInfoStatus::Absent),
            reason,
        }
    }

    fn read_tables(&mut self, limits: &SymbolLimits) {
        self.go = self.own.as_ref().and_then(GoFunctions::read);
        let stubs = self.own.as_ref().map(Elf::plt_stubs);
        // Malformed ones are ignored.
        self.stubs = stubs.and_then(Result::ok).unwrap_or_default();
        for (origin, which) in [
            (SymbolFile::Own, Which::All),
            (SymbolFile::Debug, Which::All),
            (SymbolFile::Embedded, Which::All),
            (SymbolFile::Own, Which::Exported),
        ] {
            if let SymbolFile::Embedded = origin {
                let embedded = self.own.as_ref().map(Elf::embedded);
                // A malformed one is ignored.
                self.embedded = embedded.and_then(Result::ok).flatten().map(Elf::share);
            }
            match self.read_table(origin, which, limits) {
                Ok(Some(table)) => self.tables.push((origin, table)),
                Ok(None) => continue,
                Err(error) => self.reason = NoSymbolReason::of(&error),
            }
            // The other tables contain the exported symbols as well.
            if !matches!(origin, SymbolFile::Embedded) && !self.tables.is_empty() {
                break;
            }
        }
    }

    fn read_table(
        &self,
        origin: SymbolFile,
        which: Which,
        limits: &SymbolLimits,
    ) -> Result<Option<FunctionTable>, elf::Error> {
        let Some(elf) = self.elf(origin) else {
            return Ok(None);
        };
        let Some(place) = elf.symbol_table(which) else {
            return Ok(None);
        };
        let table = FunctionTable::read(elf, place, self.code.start, limits.functions)?;
        Ok((!table.is_empty()).then_some(table))
    }

    fn elf(&self, origin: SymbolFile) -> Option<&Elf<Shared>> {
        match origin {
            SymbolFile::Own => self.own.as_ref(),
            SymbolFile::Debug => self.debug.as_ref(),
            SymbolFile::Embedded => self.embedded.as_ref(),
        }
    }

    /// Looks up `address`, an address in the file's own address space, before the load bias is added.
    /// It is one in the instruction itself: for a caller's frame, before the return address.
    #[cfg(any(test, feature = "testing"))]
    pub fn find(&mut self, address: u64) -> SymbolLookup {
        self.find_all(&[address]).remove(0)
    }

    /// Looks up several addresses, in any order.
    #[cfg(any(test, feature = "testing"))]
    pub fn find_all(&mut self, addresses: &[u64]) -> Vec<SymbolLookup> {
        let mut order: Vec<usize> = (0..addresses.len()).collect();
        order.sort_unstable_by_key(|index| addresses[*index]);
        let sorted: Vec<u64> = order.iter().map(|index| addresses[*index]).collect();
        let results = self.find_within(&sorted, &Allowance::Unlimited.start());
        let mut found = vec![SymbolLookup::Unknown(self.reason); addresses.len()];
        for (index, result) in order.into_iter().zip(results) {
            found[index] = result.symbols;
        }
        found
    }

    /// Looks up sorted addresses in the file's own address space, before the load bias is added. Each
    /// is one in the instruction itself: for a caller's frame, before the return address.
    ///
    /// All of them have their names; so have those of Go their inlined functions, files and lines,
    /// which cost as little. The others have them as far as the budget allows.
    pub fn find_within(&mut self, addresses: &[u64], budget: &Budget) -> Vec<AddressLookup> {
        let names = addresses.iter().map(|address| self.symbol(*address));
        let names: Vec<_> = names.collect();
        let found = addresses.iter().zip(names).map(|(address, symbol)| {
            let of_go = self.go.as_ref().and_then(|go| go.lines(*address));
            let is_complete = of_go.is_some() || !self.has_debug_info() || budget.take_look_up();
            let inlines = match of_go {
                Some(lines) => lines,
                None if is_complete => self.debug_inlines(*address),
                None => Vec::new(),
            };
            AddressLookup {
                symbols: lookup(symbol, inlines),
                is_complete,
            }
        });
        found.collect()
    }

    /// Whether look-ups find the debugging information decompressed and indexed, or there is none.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match &self.info {
            Ok((_, info)) => info.is_open() || info.failed().is_some(),
            Err(_) => true,
        }
    }

    /// About how much CPU time it takes to open the debugging information, to decompress and to index it; none where it
    /// is open.
    #[must_use]
    pub fn opening_time(&self) -> Duration {
        let Ok((origin, _)) = &self.info else {
            return Duration::ZERO;
        };
        if self.is_open() {
            return Duration::ZERO;
        }
        let section = self.elf(*origin).and_then(Elf::debug_info_section);
        section.map_or(Duration::ZERO, |section| {
            let per_byte = if section.is_compressed {
                NS_PER_COMPRESSED_BYTE
            } else {
                NS_PER_BYTE
            };
            Duration::from_nanos(section.bytes.saturating_mul(per_byte))
        })
    }

    /// Whether there is debugging information that can be used.
    fn has_debug_info(&self) -> bool {
        matches!(&self.info, Ok((_, info)) if info.failed().is_none())
    }

    /// Whether there is debugging information that can be used neither now nor later: whether there is
    /// room to decompress it may change.
    pub fn has_unusable_debug_info(&self) -> bool {
        let failed = self.info.as_ref().ok().and_then(|(_, info)| info.failed());
        failed.is_some_and(|error| error != dwarf::DwarfError::NoRoom)
    }

    /// The name of the function that contains `address`, from the tables.
    fn symbol(&self, address: u64) -> Result<String, NoSymbolReason> {
        if let Some(name) = self.go.as_ref().and_then(|go| go.name(address)) {
            return Ok(name);
        }
        if let Some(name) = self.stub(address) {
            return Ok(name);
        }
        let mut best = Err(self.reason);
        for (origin, table) in &self.tables {
            let Some(elf) = self.elf(*origin) else {
                continue;
            };
            best = match (best, table.find(elf, address)) {
                // The function that starts later is nested in the other, or the other's end is not known.
                (Ok(one), Ok(other)) => Ok(if one.0 < other.0 { other } else { one }),
                (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
                (Err(_), Err(reason)) => Err(reason),
            };
        }
        best.map(|(_, symbol)| symbol)
    }

    /// The name of the stub that contains `address`.
    fn stub(&self, address: u64) -> Option<String> {
        let before = self.stubs.partition_point(|stub| stub.address <= address);
        let stub = self.stubs.get(before.checked_sub(1)?)?;
        let name = self.own.as_ref()?.plt_name(stub);
        (address - stub.address < stub.bytes)
            .then(|| name.ok().flatten())?
            .map(|name| demangle::stub_name(&name))
    }

    /// Functions at `address` from debugging information; only the name of the last may be empty.
    fn debug_inlines(&mut self, address: u64) -> Vec<SymbolFrame> {
        let Ok((origin, info)) = &mut self.info else {
            return Vec::new();
        };
        let main = match origin {
            SymbolFile::Debug => self.debug.as_ref(),
            _ => self.own.as_ref(),
        };
        let Some(main) = main else {
            return Vec::new();
        };
        let files = dwarf::DwarfFiles {
            main,
            shared: self.shared.as_ref(),
        };
        let levels = info.find(&files, address);
        levels.iter().map(frame).collect()
    }

    /// Status of the debugging information.
    #[must_use]
    pub fn debug_info(&self) -> DebugInfoStatus {
        match &self.info {
            Err(reason) => *reason,
            Ok((_, info)) => match info.failed() {
                None => DebugInfoStatus::Used,
                Some(dwarf::DwarfError::TooLarge | dwarf::DwarfError::NoRoom) => {
                    DebugInfoStatus::TooLarge
                }
                Some(dwarf::DwarfError::Unreadable) => DebugInfoStatus::Unreadable,
                Some(dwarf::DwarfError::Malformed) => DebugInfoStatus::Malformed,
            },
        }
    }

    /// Approximate size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tables = self.tables.iter().map(|(_, table)| table.bytes());
        let info = self.info.as_ref().map_or(0, |(_, info)| info.bytes());
        let embedded = self.embedded.as_ref().map(|elf| elf.source().bytes());
        let embedded = embedded.and_then(Result::ok).unwrap_or(0);
        let embedded = usize::try_from(embedded).unwrap_or(usize::MAX);
        let go = self.go.as_ref().map_or(0, GoFunctions::bytes);
        let stubs = self.stubs.capacity() * size_of::<PltStub>();
        size_of::<Self>() + go + stubs + tables.sum::<usize>() + info + embedded
    }

    /// Closes the sections of debugging information; what was read of them stays.
    pub fn close_sections(&mut self) {
        if let Some(go) = &self.go {
            go.free_pages();
        }
        if let Ok((_, info)) = &mut self.info {
            info.close();
        }
    }

    /// Drops what can be read again: open sections and cached units.
    pub fn shrink(&mut self) {
        self.close_sections();
        if let Ok((_, info)) = &mut self.info {
            info.shrink();
        }
    }
}

impl fmt::Debug for ElfSymbols {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ElfSymbols");
        shown.field("tables", &self.tables.len());
        shown.field("debug_info", &self.debug_info());
        shown.finish_non_exhaustive()
    }
}

/// Combines the name from the tables with the functions from debugging information.
fn lookup(symbol: Result<String, NoSymbolReason>, mut frames: Vec<SymbolFrame>) -> SymbolLookup {
    match (symbol, frames.last_mut()) {
        // A function has the same name with and without debugging information.
        (Ok(symbol), Some(outermost)) => outermost.name = symbol,
        (Ok(symbol), None) => frames.push(SymbolFrame {
            name: symbol,
            file: None,
            line: None,
            first_line: None,
        }),
        (Err(reason), None) => return SymbolLookup::Unknown(reason),
        // Only the line is known.
        (Err(reason), Some(outermost)) if outermost.name.is_empty() => {
            return SymbolLookup::Unknown(reason);
        }
        (Err(_), Some(_)) => {}
    }
    SymbolLookup::Known(frames)
}

fn frame(level: &dwarf::InlineLevel) -> SymbolFrame {
    let file = level.file.as_deref();
    SymbolFrame {
        name: level
            .name
            .as_deref()
            .map_or_else(String::new, demangle::demangle),
        file: file.map(text::decode_bytes),
        line: NonZeroU32::new(level.line),
        first_line: NonZeroU32::new(level.first_line),
    }
}
