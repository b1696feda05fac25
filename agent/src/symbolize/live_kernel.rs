//! The functions of a kernel that runs for months: its table is read again when code was added to it.
//!
//! Modules and BPF programs come and go. Where they were, others are later, and a table of before has the wrong names
//! for these.
//!
//! Invariants: the table is read at most once per window and [`LEAST_AGE`], and only if an address outside the file
//! of the kernel is looked up.

use std::{
    fs::File,
    hash::{BuildHasher as _, Hash as _, Hasher as _},
    io::Read as _,
    mem,
    time::{Duration, Instant},
};

use foldhash::fast::FixedState;

use super::kernel::{KallsymsError, KernelSymbols, Place};
use crate::process::machine::on_machine;

/// Time for which a table is good in any case. Reading it takes fifty milliseconds.
const LEAST_AGE: Duration = Duration::from_secs(60);

const MODULES: &str = "/proc/modules";

/// Most bytes of the list of modules that are read; three hundred modules have 20 kB.
const MAX_BYTES: u64 = 1 << 20;

/// Where a table comes from.
pub(super) trait KernelSource {
    /// Reads the table.
    fn read(&mut self) -> Result<KernelSymbols, KallsymsError>;

    /// What changes when a module is loaded or unloaded.
    fn modules(&mut self) -> Option<u64>;
}

/// The kernel that runs.
#[derive(Debug, Default)]
pub(super) struct RunningKernel;

impl KernelSource for RunningKernel {
    fn read(&mut self) -> Result<KernelSymbols, KallsymsError> {
        KernelSymbols::read()
    }

    fn modules(&mut self) -> Option<u64> {
        let mut text = Vec::new();
        let file = File::open(on_machine(MODULES)).ok()?;
        file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        Some(hash_of_modules(&text))
    }
}

/// Of the names, sizes and addresses of modules, without how often each is used.
fn hash_of_modules(text: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    for line in text.split(|&byte| byte == b'\n') {
        let mut fields = line.split(u8::is_ascii_whitespace);
        (fields.next(), fields.next(), fields.nth(3)).hash(&mut hasher);
    }
    hasher.finish()
}

/// The functions of the kernel as it is.
#[derive(Debug)]
pub(super) struct LiveKernel<S = RunningKernel> {
    source: S,
    /// [`None`] until the first address.
    table: Option<Table>,
    /// When this window began.
    now: Instant,
    due: Due,
}

/// For which code this window has yet to find out whether the table is still right.
#[derive(Debug, Default)]
struct Due {
    modules: bool,
    programs: bool,
}

#[derive(Debug)]
struct Table {
    symbols: Result<KernelSymbols, KallsymsError>,
    read_at: Instant,
    modules: Option<u64>,
}

impl LiveKernel {
    pub(super) fn new() -> Self {
        Self::of(RunningKernel)
    }
}

impl<S: KernelSource> LiveKernel<S> {
    fn of(source: S) -> Self {
        Self {
            source,
            table: None,
            now: Instant::now(),
            due: Due::default(),
        }
    }

    /// Leaves out all names.
    pub(super) fn leave_out(&mut self) {
        self.table = Some(Table {
            symbols: Err(KallsymsError::LeftOut),
            read_at: self.now,
            modules: None,
        });
    }

    /// Begins a window.
    pub(super) fn begin_window(&mut self, now: Instant) {
        self.now = now;
        let age = |table: &Table| now.saturating_duration_since(table.read_at);
        let is_due = self.table.as_ref().is_some_and(|it| age(it) >= LEAST_AGE);
        self.due = Due {
            modules: is_due,
            programs: is_due,
        };
    }

    /// The functions of the kernel, with that at an address as it is in this window.
    pub(super) fn symbols_for(&mut self, address: u64) -> &Result<KernelSymbols, KallsymsError> {
        if self.is_outdated(address) {
            let new = Table::read(&mut self.source, self.now);
            // One that cannot be read any more is better than none.
            if new.symbols.is_ok() {
                self.table = Some(new);
            }
        }
        let Self {
            source, table, now, ..
        } = self;
        let table = table.get_or_insert_with(|| Table::read(source, *now));
        &table.symbols
    }

    /// Finds out whether another table may be right by now for an address; once in a window for each kind of code.
    fn is_outdated(&mut self, address: u64) -> bool {
        let Some(table) = &self.table else {
            return false;
        };
        // What cannot be read has no places.
        let Ok(symbols) = &table.symbols else {
            return false;
        };
        if !self.due.modules && !self.due.programs {
            return false;
        }
        match symbols.place(address) {
            Place::Kernel => false,
            Place::Module => {
                mem::take(&mut self.due.modules) && self.source.modules() != table.modules
            }
            Place::Program => mem::take(&mut self.due.programs),
        }
    }
}

impl Table {
    fn read(source: &mut impl KernelSource, now: Instant) -> Self {
        Self {
            // Before the table, which may have more.
            modules: source.modules(),
            symbols: source.read(),
            read_at: now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables, the first one first, each with its modules, and how many were read.
    struct Tables {
        tables: Vec<(&'static str, u64)>,
        reads: usize,
    }

    impl KernelSource for Tables {
        fn read(&mut self) -> Result<KernelSymbols, KallsymsError> {
            let (text, _) = self.tables[self.reads];
            self.reads += 1;
            KernelSymbols::parse(text.as_bytes())
        }

        fn modules(&mut self) -> Option<u64> {
            Some(self.tables[self.reads.min(self.tables.len() - 1)].1)
        }
    }

    const BEFORE: &str = "\
ffffffff81000000 T _text
ffffffffa0001000 t send [net]
ffffffffc0001000 t bpf_prog_1_one [bpf]
";

    const AFTER: &str = "\
ffffffff81000000 T _text
ffffffffa0001000 t send [net]
ffffffffa0001800 t receive [other]
ffffffffc0001000 t bpf_prog_1_one [bpf]
ffffffffc0001080 t bpf_prog_2_two [bpf]
";

    fn kernel(modules_after: u64) -> LiveKernel<Tables> {
        LiveKernel::of(Tables {
            tables: vec![(BEFORE, 1), (AFTER, modules_after)],
            reads: 0,
        })
    }

    /// The name in a window that begins `now`.
    fn name(kernel: &mut LiveKernel<Tables>, address: u64, now: Instant) -> String {
        kernel.begin_window(now);
        let symbols = kernel.symbols_for(address).as_ref().unwrap();
        symbols.find(address).unwrap().name
    }

    #[test]
    fn a_program_that_was_loaded_later_has_its_name() {
        let mut kernel = kernel(1);
        let (start, address) = (Instant::now(), 0xffff_ffff_c000_1090);
        assert_eq!(name(&mut kernel, address, start), "bpf_prog_1_one");
        let soon = start + LEAST_AGE / 2;
        assert_eq!(name(&mut kernel, address, soon), "bpf_prog_1_one");
        let later = start + LEAST_AGE;
        assert_eq!(name(&mut kernel, address, later), "bpf_prog_2_two");
        assert_eq!(kernel.source.reads, 2);
    }

    #[test]
    fn modules_are_read_again_when_there_are_others() {
        let (start, address) = (Instant::now(), 0xffff_ffff_a000_1900);
        let later = start + LEAST_AGE;
        for (modules, expected, reads) in [(1, "send", 1), (2, "receive", 2)] {
            let mut kernel = kernel(modules);
            assert_eq!(name(&mut kernel, address, start), "send");
            assert_eq!(name(&mut kernel, address, later), expected);
            assert_eq!(kernel.source.reads, reads);
        }
    }

    #[test]
    fn functions_of_the_kernel_itself_stay() {
        let mut kernel = kernel(2);
        let (start, address) = (Instant::now(), 0xffff_ffff_8100_0010);
        for day in 0..3 {
            let now = start + Duration::from_secs(86_400 * day);
            assert_eq!(name(&mut kernel, address, now), "_text");
        }
        assert_eq!(kernel.source.reads, 1);
    }

    #[test]
    fn how_often_a_module_is_used_does_not_matter() {
        let hash = |text: &str| hash_of_modules(text.as_bytes());
        let loaded = "net 4096 1 - Live 0xffffffffa0001000\n";
        assert_eq!(
            hash(loaded),
            hash("net 4096 7 other, Live 0xffffffffa0001000\n")
        );
        assert_ne!(hash(loaded), hash("net 4096 1 - Live 0xffffffffa0005000\n"));
        assert_ne!(hash(loaded), hash(""));
    }
}
