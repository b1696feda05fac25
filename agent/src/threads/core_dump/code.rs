//! The mapped code of a core dump, for native walks: the look-ups of the BPF programs, in the files themselves.
//!
//! Invariants: a file is compiled when the first frame in it is found, and once; where it is not there, frames end, and
//! so they do in further files when tables take too much memory or time.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{
    maps::{Mapping, TableState},
    native::{CodeLocation, CodeLookup},
};

use crate::{
    binaries::{
        elf::Elf,
        executables::{Executable, Executables, compile_with_marks},
        unwind::Compiled,
    },
    python::marked_code,
    threads::code::locate,
};

/// Most addresses that are cached.
const MAX_LOCATIONS: usize = 64 << 10;

/// Most bytes of all tables: those of TensorFlow and JAX together take 60 MB.
const MAX_BYTES: usize = 512 << 20;

/// Most time for compiling them.
const MAX_TIME: Duration = Duration::from_secs(60);

/// The process of code that is in no file: that of the core dump has ended.
const NO_PROCESS: u32 = 0;

/// The mapped code of a core dump.
pub(super) struct CoreCode<'a> {
    executables: &'a Executables,
    mappings: &'a [Mapping],
    /// By the numbers of the executables.
    tables: HashMap<u32, Table>,
    left_bytes: usize,
    left_time: Duration,
    locations: HashMap<u64, CodeLocation>,
}

enum Table {
    Compiled(Compiled),
    /// The file has no call-frame information, so that its code is taken for such with frame pointers.
    None,
    /// The file cannot be read.
    Absent,
}

impl<'a> CoreCode<'a> {
    /// The code of these mappings, which are those of the executables.
    pub(super) fn new(executables: &'a Executables, mappings: &'a [Mapping]) -> Self {
        Self {
            executables,
            mappings,
            tables: HashMap::new(),
            left_bytes: MAX_BYTES,
            left_time: MAX_TIME,
            locations: HashMap::new(),
        }
    }

    /// Whether an address is one of code.
    pub(super) fn has(&self, address: u64) -> bool {
        locate(self.mappings, address, NO_PROCESS).0 != CodeLocation::NOWHERE
    }

    fn look_up(&mut self, address: u64) -> CodeLocation {
        let (mut place, mapping) = locate(self.mappings, address, NO_PROCESS);
        let Some(mapping) = mapping else {
            return place;
        };
        let number = mapping.executable;
        if !self.tables.contains_key(&number) {
            let table = self.compile(number);
            self.tables.insert(number, table);
        }
        place.table = match self.tables.get(&number) {
            Some(Table::Compiled(compiled)) => {
                place.rule = compiled.find(place.address);
                TableState::LOADED
            }
            Some(Table::None) => TableState::NONE,
            Some(Table::Absent) | None => TableState::ABSENT,
        };
        place
    }

    fn compile(&mut self, number: u32) -> Table {
        if self.left_time.is_zero() {
            return Table::Absent;
        }
        let began = Instant::now();
        let executable = self.executables.get(number);
        let table = executable.map_or(Table::Absent, |executable| Table::of(&executable));
        self.left_time = self.left_time.saturating_sub(began.elapsed());
        match self.left_bytes.checked_sub(table.bytes()) {
            Some(left) => {
                self.left_bytes = left;
                table
            }
            None => Table::Absent,
        }
    }
}

impl CodeLookup for CoreCode<'_> {
    fn find(&mut self, address: u64, _stack_pointer: u64) -> Option<&CodeLocation> {
        if !self.locations.contains_key(&address) {
            let place = self.look_up(address);
            if self.locations.len() >= MAX_LOCATIONS {
                self.locations.clear();
            }
            self.locations.insert(address, place);
        }
        self.locations.get(&address)
    }
}

impl Table {
    fn of(executable: &Executable) -> Self {
        let Some(bytes) = executable.bytes() else {
            return Self::Absent;
        };
        let Ok(elf) = Elf::read(Arc::clone(bytes)) else {
            return Self::Absent;
        };
        match compile_with_marks(&elf, marked_code) {
            Ok(Some(compiled)) => Self::Compiled(compiled),
            Ok(None) | Err(_) => Self::None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Compiled(compiled) => compiled.bytes(),
            Self::None | Self::Absent => 0,
        }
    }
}
