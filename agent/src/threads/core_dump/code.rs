//! The mapped code of a core dump, for native walks: the look-ups of the BPF programs, in the files themselves.
//!
//! Invariant: a file is compiled when the first frame in it is found, and once; where it is not there, frames end.

use std::{collections::HashMap, sync::Arc};

use agent_common::{
    maps::{Mapping, TableState},
    native::{CodeLocation, CodeLookup},
};

use crate::{
    binaries::{
        elf::Elf,
        executables::{Executable, Executables},
        unwind::{Compiled, compile},
    },
    python::marked_code,
    threads::code::locate,
};

/// Most addresses that are cached.
const MAX_LOCATIONS: usize = 64 << 10;

/// The process of code that is in no file: that of the core dump has ended.
const NO_PROCESS: u32 = 0;

/// The mapped code of a core dump.
pub(super) struct CoreCode<'a> {
    executables: &'a Executables,
    mappings: &'a [Mapping],
    /// By the numbers of the executables.
    tables: HashMap<u32, Table>,
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
        let executables = self.executables;
        let number = mapping.executable;
        let table = self.tables.entry(number).or_insert_with(|| {
            let executable = executables.get(number);
            executable.map_or(Table::Absent, |executable| Table::of(&executable))
        });
        place.table = match table {
            Table::Compiled(compiled) => {
                place.rule = compiled.find(place.address);
                TableState::LOADED
            }
            Table::None => TableState::NONE,
            Table::Absent => TableState::ABSENT,
        };
        place
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
        let marks = marked_code(&elf).unwrap_or_default();
        match compile(&elf, &marks) {
            Ok(compiled) if compiled.rows().len() != 0 => Self::Compiled(compiled),
            // Without a table the walk follows frame pointers.
            Ok(_) | Err(_) => Self::None,
        }
    }
}
