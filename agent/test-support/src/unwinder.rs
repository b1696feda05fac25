//! The native walk of the BPF programs on a stopped process: the same code on the same tables, with
//! files in place of maps.

use std::{collections::HashMap, ops::Range, path::Path, sync::Arc, time::Instant};

use agent::testing::{
    binaries::{
        elf::Elf,
        executables::{self, Bytes},
        unwind::{self, SharedRules, compile, pack},
    },
    process::{Memory, Process},
    python::marked_code,
};
use agent_common::{
    maps::{Mapping, TableState},
    native::{
        CodeLocation, CodeLookup, MappingSearch, Mappings, NativeOutcome, NativeWalk, PythonFrames,
        UnwindNative,
    },
    record::{NativeKind, NativeUnwindStatus},
    scratch::Scratch,
    unwind::RuleSearch,
};
use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection as _};

/// The unwind tables of all mapped files.
#[derive(Default)]
pub struct Unwinder {
    code: executables::Executables,
    rules: SharedRules,
    /// By index of the table; [`None`] for a file without one.
    tables: HashMap<u32, Option<unwind::PackedTable>>,
    /// The functions of files, by index of the file.
    functions: HashMap<u32, Vec<Range<u64>>>,
    walk: Box<NativeWalk>,
    scratch: Box<Scratch>,
}

/// The result of a walk.
#[derive(Debug)]
pub struct Unwound {
    /// The frames, leaf first.
    pub frames: Vec<Frame>,
    /// Where it ended.
    pub end: NativeUnwindStatus,
}

/// A frame of the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The address that its rule was looked up for.
    pub address: u64,
    /// Its code location and rule.
    pub place: CodeLocation,
    /// Number of Python frames that replace it; [`None`] where it is part of the stack.
    pub runs: Option<u32>,
}

impl Unwinder {
    /// Reads the mappings of a process.
    pub fn read_mappings(&mut self, process: &Process) -> Vec<Mapping> {
        let mapped = self.code.read_mappings(process).unwrap();
        self.code.set_process(process.pid(), &mapped);
        for executable in self.code.of_process(process.pid()) {
            self.tables.entry(executable.table()).or_insert_with(|| {
                let elf = Elf::read(Arc::clone(executable.bytes()?)).ok()?;
                let marks = marked_code(&elf).unwrap();
                let compiled = compile(&elf, &marks).ok()?;
                let rules = self.rules.add(compiled.rules(), Instant::now());
                let table = pack(&compiled, &rules);
                (table.pages != 0).then_some(table)
            });
        }
        mapped.mappings
    }

    /// The file of a location and the address in it.
    pub fn show(&self, location: &CodeLocation) -> String {
        let executable = self.code.get(location.file_or_pid);
        let path = executable
            .as_ref()
            .map_or(Path::new("?"), |executable| executable.path());
        format!("{}+{:x}", path.display(), location.address)
    }

    /// Whether the file of a location has call-frame information for it, read directly from the
    /// file.
    pub fn is_described(&self, location: &CodeLocation) -> bool {
        let Some(elf) = self.elf(location) else {
            return false;
        };
        let Some(section) = elf.section(".eh_frame") else {
            return false;
        };
        let contents = elf.contents(".eh_frame", section.bytes).unwrap();
        let bases = BaseAddresses::default().set_eh_frame(section.address);
        let frames = EhFrame::new(&contents, LittleEndian);
        frames
            .fde_for_address(&bases, location.address, EhFrame::cie_from_offset)
            .is_ok()
    }

    /// Whether the file of a location has the names of all functions.
    pub fn is_named(&self, location: &CodeLocation) -> bool {
        let elf = self.elf(location);
        elf.is_some_and(|elf| elf.section(".symtab").is_some())
    }

    /// Start of the function of a location, from the call-frame information of its file.
    pub fn function(&mut self, location: &CodeLocation) -> Option<u64> {
        if !self.functions.contains_key(&location.file_or_pid) {
            let elf = self.elf(location);
            let functions = elf.and_then(|elf| unwind::functions(&elf).ok());
            self.functions
                .insert(location.file_or_pid, functions.unwrap_or_default());
        }
        let functions = &self.functions[&location.file_or_pid];
        let after = functions.partition_point(|range| range.start <= location.address);
        let range = &functions[after.checked_sub(1)?];
        range.contains(&location.address).then_some(range.start)
    }

    fn elf(&self, location: &CodeLocation) -> Option<Elf<Arc<Bytes>>> {
        let executable = self.code.get(location.file_or_pid)?;
        Elf::read(Arc::clone(executable.bytes()?)).ok()
    }

    /// Walks the frames of a thread with these registers, by DWARF's numbers.
    pub fn walk(
        &mut self,
        process: &Process,
        mappings: &[Mapping],
        pc: u64,
        registers: &[u64],
        python: PythonFrames<'_>,
    ) -> Unwound {
        let known = Known {
            mappings,
            rules: &self.rules,
            tables: &self.tables,
            address: 0,
            place: CodeLocation::NOWHERE,
        };
        let memory = process.memory().unwrap();
        let mut steps = Steps {
            walk: &mut self.walk,
            scratch: &mut self.scratch,
            memory,
            pc,
            registers,
            python,
            known,
            frames: Vec::new(),
            count: 0,
        };
        let end = steps.unwind();
        Unwound {
            frames: steps.frames,
            end,
        }
    }
}

/// The steps of a walk, one frame at a time.
struct Steps<'a> {
    walk: &'a mut NativeWalk,
    scratch: &'a mut Scratch,
    memory: &'a Memory,
    pc: u64,
    registers: &'a [u64],
    python: PythonFrames<'a>,
    known: Known<'a>,
    frames: Vec<Frame>,
    /// Entries of the stack that are in `frames`.
    count: usize,
}

impl UnwindNative for Steps<'_> {
    const FRAMES_PER_STEP: u32 = 1;

    fn begin(&mut self) -> NativeOutcome {
        self.walk.clear(0);
        self.walk.begin(self.pc);
        for (number, value) in (0..).zip(self.registers) {
            self.walk.set_register(number, *value);
        }
        NativeOutcome::NEXT
    }

    fn walk_frames(&mut self) -> NativeOutcome {
        let step = self
            .walk
            .step(self.memory, self.scratch, self.python, &mut self.known);
        // Immediately: the runs of two loops are separate even without a frame between them.
        self.walk.stack.push_pending_run();
        self.walk.stack.finish_record();
        let entries = self.walk.stack.head.frame_count as usize;
        let runs = self.walk.stack.frames[self.count..entries]
            .iter()
            .find(|entry| entry.kind == NativeKind::PYTHON);
        self.count = entries;
        if self.known.place.kind != NativeKind(0) {
            self.frames.push(Frame {
                address: self.known.address,
                place: self.known.place,
                runs: runs.map(|runs| runs.id_or_count),
            });
        }
        step.into()
    }
}

/// The mapped code of a process.
struct Known<'a> {
    mappings: &'a [Mapping],
    rules: &'a SharedRules,
    tables: &'a HashMap<u32, Option<unwind::PackedTable>>,
    /// The last look-up: the address and its location.
    address: u64,
    place: CodeLocation,
}

impl CodeLookup for Known<'_> {
    fn find(&mut self, address: u64, _stack_pointer: u64) -> Option<&CodeLocation> {
        self.address = address;
        self.place = CodeLocation::NOWHERE;
        let count = u32::try_from(self.mappings.len()).unwrap();
        let index = MappingSearch::new().find(&Starts(self.mappings), 0, count, address);
        let mapping = self.mappings.get(index as usize)?;
        if !(mapping.start..mapping.end).contains(&address) {
            return Some(&self.place);
        }
        self.place.address = address.wrapping_sub(mapping.bias);
        self.place.file_or_pid = mapping.executable;
        self.place.kind = NativeKind::ANONYMOUS;
        if mapping.executable != Mapping::ANONYMOUS {
            self.place.kind = NativeKind::FILE;
            if let Some(table) = &self.tables[&mapping.table] {
                let distance = self.place.address.wrapping_sub(table.base);
                let rule = RuleSearch::new().find(table, table.pages, distance);
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
