//! Symbolizes kernel addresses with `/proc/kallsyms`.
//!
//! Invariants: the table is read as a stream and not beyond [`MAX_BYTES`]; only code is kept, in
//! about 35 bytes per function; of several functions at an address the same one is always found.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read},
};

use thiserror::Error;

use super::demangle;
use crate::{binaries::elf, process::machine::on_machine};

const TABLE: &str = "/proc/kallsyms";
const NOTES: &str = "/sys/kernel/notes";

/// Most bytes of the table that are read; a large kernel with all modules has 20 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Most bytes of the notes that are read.
const MAX_NOTES: u64 = 64 << 10;

/// Most functions that are kept; a kernel with many modules has 200,000.
const MAX_FUNCTIONS: usize = 2_000_000;

/// Most bytes of a function: the last function of a module has no known end.
const MAX_FUNCTION: u64 = 1 << 20;

/// Why the kernel's symbols are not available.
#[derive(Debug, Error)]
pub enum KallsymsError {
    /// The table cannot be read.
    #[error("cannot read {TABLE}; check that /proc is mounted and the kernel has CONFIG_KALLSYMS")]
    Read(#[source] io::Error),
    /// All addresses are zero.
    #[error(
        "the kernel hides its addresses; run as root or with CAP_SYSLOG, and set the sysctl \
         kernel.kptr_restrict to 0 or 1"
    )]
    AddressesHidden,
    /// The table has no functions.
    #[error("{TABLE} has no functions; the kernel needs CONFIG_KALLSYMS")]
    Empty,
    /// Names are not wanted.
    #[error("the names of kernel functions are left out")]
    LeftOut,
}

/// The functions of the kernel and its modules.
#[derive(Debug)]
pub struct KernelSymbols {
    /// By address, each address once.
    entries: Box<[Entry]>,
    /// All names, each terminated by a zero byte.
    names: Box<[u8]>,
    modules: Vec<String>,
    build_id: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    name: u32,
    /// Index into `modules`, or [`KERNEL`].
    module: u16,
}

/// Stands for the kernel itself.
const KERNEL: u16 = u16::MAX;

/// Beginnings of the names of what is no module, although the table says so.
const PROGRAMS: [&str; 2] = ["bpf", "__builtin__"];

/// Where code of the kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the file of the kernel.
    Kernel,
    Module,
    /// In a BPF program, in a trampoline, or where the table has nothing.
    Program,
}

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFunction<'a> {
    /// Demangled name.
    pub name: String,
    /// Its module; [`None`] in the kernel itself, `bpf` for a BPF program.
    pub module: Option<&'a str>,
    /// First address.
    pub start: u64,
}

impl KernelSymbols {
    /// Reads the functions of the running kernel.
    ///
    /// # Errors
    ///
    /// When the table cannot be read, is empty or has no addresses.
    pub fn read() -> Result<Self, KallsymsError> {
        let table = File::open(on_machine(TABLE)).map_err(KallsymsError::Read)?;
        let mut symbols = Self::parse(table)?;
        symbols.build_id = build_id();
        Ok(symbols)
    }

    /// Reads a table like `/proc/kallsyms`.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn parse(table: impl Read) -> Result<Self, KallsymsError> {
        let mut reader = BufReader::with_capacity(64 << 10, table.take(MAX_BYTES));
        let mut parser = KallsymsParser::default();
        let mut line = Vec::new();
        while parser.candidates.len() < MAX_FUNCTIONS {
            line.clear();
            if reader
                .read_until(b'\n', &mut line)
                .map_err(KallsymsError::Read)?
                == 0
            {
                break;
            }
            parser.add(&line);
        }
        parser.finish()
    }

    /// The function that contains `address`.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<KernelFunction<'_>> {
        let entry = self.entry(address)?;
        let name = name_at(&self.names, entry.name);
        Some(KernelFunction {
            name: demangle::demangle(name),
            module: self.module(entry),
            start: entry.address,
        })
    }

    /// Where `address` is, as far as the table says.
    pub(super) fn place(&self, address: u64) -> Place {
        let Some(entry) = self.entry(address) else {
            return Place::Program;
        };
        match self.module(entry) {
            None => Place::Kernel,
            Some(module) if PROGRAMS.iter().any(|name| module.starts_with(name)) => Place::Program,
            Some(_) => Place::Module,
        }
    }

    fn entry(&self, address: u64) -> Option<&Entry> {
        let after = self
            .entries
            .partition_point(|entry| entry.address <= address);
        let entry = self.entries[..after].last()?;
        (address - entry.address < MAX_FUNCTION).then_some(entry)
    }

    fn module(&self, entry: &Entry) -> Option<&str> {
        let module = self.modules.get(usize::from(entry.module));
        module.map(String::as_str)
    }

    /// The GNU build ID of the kernel, in lower-case hexadecimal.
    #[must_use]
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }
}

/// The GNU build ID of the running kernel.
fn build_id() -> Option<String> {
    let mut notes = Vec::new();
    let file = File::open(on_machine(NOTES)).ok()?;
    file.take(MAX_NOTES).read_to_end(&mut notes).ok()?;
    elf::build_id_in(&notes)
}

fn name_at(names: &[u8], start: u32) -> &[u8] {
    let name = names.get(start as usize..).unwrap_or_default();
    let end = name.iter().position(|&byte| byte == 0);
    &name[..end.unwrap_or(name.len())]
}

/// Builds the table of functions line by line.
#[derive(Default)]
struct KallsymsParser {
    /// Functions, and whether their symbol is local.
    candidates: Vec<(Entry, bool)>,
    names: Vec<u8>,
    modules: Vec<String>,
    has_zero_address: bool,
}

impl KallsymsParser {
    /// Adds a line: address, type, name and, in a module, the module's name in brackets.
    fn add(&mut self, line: &[u8]) -> Option<()> {
        let mut fields = line
            .split(u8::is_ascii_whitespace)
            .filter(|field| !field.is_empty());
        let address = str::from_utf8(fields.next()?).ok()?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let kind = fields.next()?;
        let symbol = fields.next()?;
        if !matches!(kind, b"t" | b"T" | b"w" | b"W") || elf::is_mapping_symbol(symbol) {
            return None;
        }
        if address == 0 {
            self.has_zero_address = true;
            return None;
        }
        let module = match fields.next() {
            Some(module) => {
                let module = module.strip_prefix(b"[")?.strip_suffix(b"]")?;
                self.module(&String::from_utf8_lossy(module))?
            }
            None => KERNEL,
        };
        let name = u32::try_from(self.names.len()).ok()?;
        self.names.extend_from_slice(symbol);
        self.names.push(0);
        let entry = Entry {
            address,
            name,
            module,
        };
        self.candidates.push((entry, kind == b"t"));
        Some(())
    }

    /// The index of a module.
    fn module(&mut self, name: &str) -> Option<u16> {
        // The functions of a module are adjacent.
        let known = self.modules.iter().rposition(|module| module == name);
        let index = known.unwrap_or_else(|| {
            self.modules.push(name.to_owned());
            self.modules.len() - 1
        });
        u16::try_from(index).ok().filter(|index| *index != KERNEL)
    }

    fn finish(mut self) -> Result<KernelSymbols, KallsymsError> {
        if self.candidates.is_empty() {
            return Err(if self.has_zero_address {
                KallsymsError::AddressesHidden
            } else {
                KallsymsError::Empty
            });
        }
        let names = &self.names;
        // Of several names at an address a global one, and of these the one with fewest underscores.
        let rank = |(entry, is_local): &(Entry, bool)| {
            let name = name_at(names, entry.name);
            let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
            (*is_local, underscores, name.len(), name)
        };
        self.candidates.sort_unstable_by(|one, other| {
            let by_address = one.0.address.cmp(&other.0.address);
            by_address.then_with(|| rank(one).cmp(&rank(other)))
        });
        self.candidates.dedup_by_key(|(entry, _)| entry.address);
        // Keep only the names in use.
        let mut kept = Vec::new();
        let entries = self.candidates.iter().map(|(entry, _)| {
            let start = kept.len();
            kept.extend_from_slice(name_at(names, entry.name));
            kept.push(0);
            Entry {
                name: u32::try_from(start).unwrap_or(entry.name),
                ..*entry
            }
        });
        Ok(KernelSymbols {
            entries: entries.collect(),
            names: kept.into(),
            modules: self.modules,
            build_id: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{KallsymsError, KernelSymbols};
    use proptest::prelude::{any, proptest};

    const TABLE: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000000 t a
ffffffff81000100 T __x64_sys_read
ffffffff81000200 t do_read.isra.0
ffffffff81000300 D jiffies
ffffffff82000000 W weak_one
ffffffffc0000040 t $x\t[ext4]
ffffffffc0000040 t ext4_read\t[ext4]
ffffffffc0000048 t $d.1\t[ext4]
ffffffffc0001000 t bpf_prog_6deef7357e7b4530_walk\t[bpf]
broken line
ffffffff8100zzzz T broken
";

    fn find(symbols: &KernelSymbols, address: u64) -> Option<(String, Option<String>)> {
        let found = symbols.find(address)?;
        Some((found.name, found.module.map(str::to_owned)))
    }

    #[test]
    fn functions_are_found_with_their_modules() {
        let symbols = KernelSymbols::parse(TABLE.as_bytes()).unwrap();
        let of_kernel = |name: &str| Some((name.to_owned(), None));
        let of_module = |name: &str, module: &str| Some((name.to_owned(), Some(module.to_owned())));
        assert_eq!(symbols.entries.len(), 6);
        assert_eq!(find(&symbols, 0xffff_ffff_80ff_ffff), None);
        assert_eq!(
            find(&symbols, 0xffff_ffff_8100_00ff),
            of_kernel("startup_64")
        );
        assert_eq!(
            find(&symbols, 0xffff_ffff_8100_0100),
            of_kernel("__x64_sys_read")
        );
        assert_eq!(find(&symbols, 0xffff_ffff_8100_0240), of_kernel("do_read"));
        assert_eq!(find(&symbols, 0xffff_ffff_8110_0200), None);
        assert_eq!(find(&symbols, 0xffff_ffff_8200_0001), of_kernel("weak_one"));
        assert_eq!(
            find(&symbols, 0xffff_ffff_c000_0049),
            of_module("ext4_read", "ext4")
        );
        let program = of_module("bpf_prog_6deef7357e7b4530_walk", "bpf");
        assert_eq!(find(&symbols, 0xffff_ffff_c000_1000), program);
        assert_eq!(find(&symbols, u64::MAX), None);
    }

    #[test]
    fn hidden_addresses_and_an_empty_table_are_different_errors() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t do_read\n";
        let error = KernelSymbols::parse(hidden.as_bytes()).unwrap_err();
        assert!(matches!(error, KallsymsError::AddressesHidden), "{error}");
        assert!(error.to_string().contains("kptr_restrict"));
        let empty = KernelSymbols::parse(&b"ffffffff81000300 D jiffies\n"[..]);
        assert!(matches!(empty.unwrap_err(), KallsymsError::Empty));
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(table in any::<Vec<u8>>(), address in any::<u64>()) {
            if let Ok(symbols) = KernelSymbols::parse(table.as_slice()) {
                let _ = symbols.find(address);
            }
        }

        #[test]
        fn no_line_makes_it_panic(
            table in "([0-9a-f]{0,17} [tTwWd]? ?[a-z_.]{0,9}( |\t)?\\[?[a-z]{0,3}\\]?\n){0,30}",
            address in any::<u64>(),
        ) {
            if let Ok(symbols) = KernelSymbols::parse(table.as_bytes()) {
                let _ = symbols.find(address);
                let _ = symbols.find(0);
            }
        }
    }
}
