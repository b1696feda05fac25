//! The native walk of the BPF programs on a stopped process: the same code on the same tables, with
//! files in place of maps.

use std::{collections::HashMap, ops::Range, path::Path, sync::Arc};

use agent::testing::{
    binaries::{
        elf::Elf,
        executables::{self, Bytes, Executable},
        unwind::{self, Rules, compile, pack},
    },
    process::Process,
    python::evaluation_loop,
};
use agent_common::{
    limits::MAX_NATIVE_VISITED,
    mappings::{Mapping, MappingSearch, Mappings, TableState},
    native::{Code, NativeStep, NativeWalk, Place, Python},
    record::{NativeEnd, NativeKind},
    scratch::Scratch,
    unwind::Search,
};
use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection as _};

/// The unwind tables of all mapped files.
#[derive(Default)]
pub(crate) struct Unwinder {
    code: executables::Executables,
    rules: Rules,
    /// By index of the table; [`None`] for a file without one.
    tables: HashMap<u32, Option<unwind::PackedTable>>,
    /// The functions of files, by index of the file.
    functions: HashMap<u32, Vec<Range<u64>>>,
    walk: Box<NativeWalk>,
    scratch: Box<Scratch>,
}

/// The result of a walk.
#[derive(Debug)]
pub(crate) struct Unwound {
    /// The frames, leaf first.
    pub(crate) frames: Vec<Frame>,
    /// Its status.
    pub(crate) end: NativeEnd,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The address of the look-up of its rule.
    pub(crate) address: u64,
    /// The location of that address.
    pub(crate) place: Place,
    /// Number of Python frames that replace it; [`None`] where it is part of the stack.
    pub(crate) runs: Option<u32>,
}

impl Unwinder {
    /// Reads the mappings of a process.
    pub(crate) fn look(&mut self, process: &Process) -> Vec<Mapping> {
        let mappings = self.code.read_mappings(process).unwrap();
        for executable in self.code.of_process(process.pid()) {
            self.tables.entry(executable.table()).or_insert_with(|| {
                let elf = Elf::read(Arc::clone(executable.bytes()?)).ok()?;
                let loops = evaluation_loop::ranges(&elf).unwrap();
                let table = pack(&compile(&elf, &loops).ok()?, &mut self.rules);
                (table.pages != 0).then_some(table)
            });
        }
        mappings
    }

    /// The file of a location and the address in it.
    pub(crate) fn show(&self, place: &Place) -> String {
        let executable = self.code.get(place.of);
        let path = executable.map_or(Path::new("?"), Executable::path);
        format!("{}+{:x}", path.display(), place.address)
    }

    /// Whether the file of a location has call-frame information for it, read from the file.
    pub(crate) fn is_described(&self, place: &Place) -> bool {
        let Some(elf) = self.elf(place) else {
            return false;
        };
        let Some(section) = elf.section(".eh_frame") else {
            return false;
        };
        let contents = elf.contents(".eh_frame", section.bytes).unwrap();
        let bases = BaseAddresses::default().set_eh_frame(section.address);
        let frames = EhFrame::new(&contents, LittleEndian);
        frames
            .fde_for_address(&bases, place.address, EhFrame::cie_from_offset)
            .is_ok()
    }

    /// Whether the file of a location has all symbols.
    pub(crate) fn is_named(&self, place: &Place) -> bool {
        let elf = self.elf(place);
        elf.is_some_and(|elf| elf.section(".symtab").is_some())
    }

    /// The start of the function of a location, by the call-frame information of its file.
    pub(crate) fn function(&mut self, place: &Place) -> Option<u64> {
        if !self.functions.contains_key(&place.of) {
            let elf = self.elf(place);
            let functions = elf.and_then(|elf| unwind::functions(&elf).ok());
            self.functions
                .insert(place.of, functions.unwrap_or_default());
        }
        let functions = &self.functions[&place.of];
        let after = functions.partition_point(|range| range.start <= place.address);
        let range = &functions[after.checked_sub(1)?];
        range.contains(&place.address).then_some(range.start)
    }

    fn elf(&self, place: &Place) -> Option<Elf<Arc<Bytes>>> {
        let bytes = self.code.get(place.of)?.bytes()?;
        Elf::read(Arc::clone(bytes)).ok()
    }

    /// Walks the frames of a thread with these registers, by DWARF register number.
    pub(crate) fn walk(
        &mut self,
        process: &Process,
        mappings: &[Mapping],
        pc: u64,
        registers: &[u64],
        python: Python<'_>,
    ) -> Unwound {
        self.walk.clear(0);
        self.walk.begin(pc);
        for (number, value) in (0..).zip(registers) {
            self.walk.set_register(number, *value);
        }
        let mut known = Known {
            mappings,
            rules: &self.rules,
            tables: &self.tables,
            address: 0,
            place: Place::NOWHERE,
        };
        let memory = process.memory().unwrap();
        let mut frames = Vec::new();
        let mut count = 0;
        let mut end = NativeEnd::TOO_DEEP;
        for _ in 0..MAX_NATIVE_VISITED {
            let step = self
                .walk
                .step(memory, &mut self.scratch, python, &mut known);
            // Immediately: runs of two loops are separate even without a frame between them.
            self.walk.keep_pending();
            self.walk.seal();
            let entries = self.walk.head.frame_count as usize;
            let runs = self.walk.frames[count..entries]
                .iter()
                .find(|entry| entry.kind == NativeKind::PYTHON);
            count = entries;
            if known.place.kind != NativeKind(0) {
                frames.push(Frame {
                    address: known.address,
                    place: known.place,
                    runs: runs.map(|runs| runs.of),
                });
            }
            if let NativeStep::End(why) = step {
                end = why;
                break;
            }
        }
        Unwound { frames, end }
    }
}

/// The mapped code of a process.
struct Known<'a> {
    mappings: &'a [Mapping],
    rules: &'a Rules,
    tables: &'a HashMap<u32, Option<unwind::PackedTable>>,
    /// The last look-up: the address and its location.
    address: u64,
    place: Place,
}

impl Code for Known<'_> {
    fn find(&mut self, address: u64) -> Option<&Place> {
        self.address = address;
        self.place = Place::NOWHERE;
        let count = u32::try_from(self.mappings.len()).unwrap();
        let index = MappingSearch::new().find(&Starts(self.mappings), 0, count, address);
        let mapping = self.mappings.get(index as usize)?;
        if !(mapping.start..mapping.end).contains(&address) {
            return Some(&self.place);
        }
        self.place.address = address.wrapping_sub(mapping.bias);
        self.place.of = mapping.executable;
        self.place.kind = NativeKind::ANONYMOUS;
        if mapping.executable != Mapping::ANONYMOUS {
            self.place.kind = NativeKind::FILE;
            if let Some(table) = &self.tables[&mapping.table] {
                let distance = self.place.address.wrapping_sub(table.base);
                let rule = Search::new().find(table, table.pages, distance);
                self.place.rule = self.rules.get(rule).unwrap();
                self.place.table = TableState::LOADED;
            } else {
                self.place.table = TableState::NONE;
            }
        }
        Some(&self.place)
    }
}

struct Starts<'a>(&'a [Mapping]);

impl Mappings for Starts<'_> {
    fn start(&self, index: u32) -> u64 {
        let mapping = self.0.get(index as usize);
        mapping.map_or(u64::MAX, |mapping| mapping.start)
    }
}
