//! Mappings: the main program, the executables of native and kernel frames, one mapping per runtime for
//! Python frames.
//!
//! Invariants: ids are 1, 2, 3 …; the first mapping is the program of the first process, where it is
//! known, and a location refers to every other one. Equal mappings of several processes are merged; an
//! executable has one mapping for all processes, in the file's own address space.

use std::{collections::HashMap, path::Path};

use super::{schema, string_table::StringTable};
use crate::{
    profile::{
        CodeAddress, Executable, ExecutableId, ExecutableKind, Location, Process, ProcessIndex,
        Profile,
    },
    text::printable,
};

/// The mappings of a profile.
pub(super) struct Mappings {
    messages: Vec<schema::Mapping>,
    /// Ids of mappings; in the keys the id is 0.
    ids: HashMap<schema::Mapping, u64>,
    /// Mapping of native and kernel frames, by [`ExecutableId`]; 0 where there is no such frame.
    executables: Vec<u64>,
    /// Mapping of Python frames and markers, by [`ProcessIndex`]; 0 where there is no such frame.
    python: Vec<u64>,
}

impl Mappings {
    /// Adds the program of the first process, then the executables of native and kernel frames, then
    /// the mappings of Python frames.
    pub(super) fn new(profile: &Profile, strings: &mut StringTable) -> Self {
        let mut mappings = Self {
            messages: Vec::new(),
            ids: HashMap::new(),
            executables: Vec::with_capacity(profile.executables.len()),
            python: Vec::with_capacity(profile.processes.len()),
        };
        let used = UsedCode::of(profile);
        let executables = profile.executables.iter().zip(&used.executables);
        let executables: Vec<_> = executables
            .map(|(executable, symbols)| executable_mapping(executable, *symbols, strings))
            .collect();
        if let Some(program) = Program::of(profile) {
            mappings.id(match program.executable {
                Some(ExecutableId(index)) => executables[index as usize],
                None => program_mapping(&program, strings),
            });
        }
        for (mapping, symbols) in executables.into_iter().zip(used.executables) {
            let id = if symbols.is_used() {
                mappings.id(mapping)
            } else {
                0
            };
            mappings.executables.push(id);
        }
        for (process, is_used) in profile.processes.iter().zip(used.python) {
            let id = if is_used {
                mappings.id(python_mapping(process, strings))
            } else {
                0
            };
            mappings.python.push(id);
        }
        mappings
    }

    /// The id of the mapping of a location in a process that has a sample with it.
    pub(super) fn of(&self, location: &Location, process: ProcessIndex) -> u64 {
        match location.code {
            Some(code) => self.executables[code.executable.0 as usize],
            None => self.python[process.0 as usize],
        }
    }

    pub(super) fn into_messages(self) -> Vec<schema::Mapping> {
        self.messages
    }

    /// The id of a mapping, which is added when it is new.
    fn id(&mut self, mapping: schema::Mapping) -> u64 {
        *self.ids.entry(mapping).or_insert_with(|| {
            let id = self.messages.len() as u64 + 1;
            self.messages.push(schema::Mapping { id, ..mapping });
            id
        })
    }
}

/// What the samples of a profile refer to.
struct UsedCode {
    /// By [`ExecutableId`].
    executables: Vec<KnownSymbols>,
    /// Whether there are frames without code, by [`ProcessIndex`].
    python: Vec<bool>,
}

impl UsedCode {
    fn of(profile: &Profile) -> Self {
        let mut used = Self {
            executables: vec![KnownSymbols::default(); profile.executables.len()],
            python: vec![false; profile.processes.len()],
        };
        for sample in &profile.samples {
            let process = profile.process_of(sample);
            for id in &profile.stacks[sample.stack.0 as usize] {
                let location = profile.location(*id);
                match location.code {
                    Some(CodeAddress { executable, .. }) => {
                        used.executables[executable.0 as usize].add(location);
                    }
                    None => used.python[process.0 as usize] = true,
                }
            }
        }
        used
    }
}

/// Whether the locations of an executable are symbolized.
#[derive(Clone, Copy, Default)]
struct KnownSymbols {
    has_named: bool,
    has_unnamed: bool,
    has_inlined: bool,
}

impl KnownSymbols {
    fn add(&mut self, location: &Location) {
        match location.lines.len() {
            0 => self.has_unnamed = true,
            lines => {
                self.has_named = true;
                self.has_inlined |= lines > 1;
            }
        }
    }

    /// Whether there are locations.
    fn is_used(self) -> bool {
        self.has_named || self.has_unnamed
    }
}

/// The program of the first process.
struct Program<'a> {
    path: &'a Path,
    build_id: Option<&'a str>,
    /// Where it is one of the profile.
    executable: Option<ExecutableId>,
}

impl<'a> Program<'a> {
    fn of(profile: &'a Profile) -> Option<Self> {
        let process = profile.processes.first()?;
        let image = process.images.first();
        let path = image.map_or(&process.executable, |image| &image.path);
        let build_id = image.and_then(|image| image.build_id.as_deref());
        let is_own = |executable: &Executable| {
            executable.kind == ExecutableKind::File
                && executable.path == *path
                && build_id.is_none_or(|id| executable.build_id.as_deref() == Some(id))
        };
        let mut executables = (0..).zip(&profile.executables);
        let executable = executables.find(|(_, executable)| is_own(executable));
        (!path.as_os_str().is_empty()).then(|| Self {
            path,
            build_id,
            executable: executable.map(|(index, _)| ExecutableId(index)),
        })
    }
}

/// The mapping of a program without a frame: it has no addresses, because none is in use.
fn program_mapping(program: &Program<'_>, strings: &mut StringTable) -> schema::Mapping {
    schema::Mapping {
        filename: strings.index(&printable(&program.path.to_string_lossy())),
        build_id: strings.index(program.build_id.unwrap_or_default()),
        ..schema::Mapping::default()
    }
}

/// The mapping of an executable: a file has its path, anything else a name in brackets.
fn executable_mapping(
    executable: &Executable,
    symbols: KnownSymbols,
    strings: &mut StringTable,
) -> schema::Mapping {
    let name = match executable.kind {
        ExecutableKind::File => executable.path.to_string_lossy(),
        ExecutableKind::Kernel => "[kernel.kallsyms]".into(),
        ExecutableKind::KernelModule | ExecutableKind::Vdso | ExecutableKind::Anonymous => {
            executable.name()
        }
    };
    // Keeps `go tool pprof` from searching the file on its machine.
    let blocks_local_lookup = symbols.has_named || executable.build_id.is_none();
    schema::Mapping {
        id: 0,
        memory_start: executable.start,
        memory_limit: executable.limit,
        file_offset: executable.file_offset,
        filename: strings.index(&printable(&name)),
        build_id: strings.index(executable.build_id.as_deref().unwrap_or_default()),
        has_functions: symbols.has_named && !symbols.has_unnamed,
        has_filenames: blocks_local_lookup,
        has_line_numbers: blocks_local_lookup,
        has_inline_frames: symbols.has_inlined,
    }
}

/// The mapping of Python frames, for example `[cpython 3.12.1]`; without an interpreter `[no python]`.
fn python_mapping(process: &Process, strings: &mut StringTable) -> schema::Mapping {
    let runtime = match (&*process.runtime, process.is_python) {
        ("", true) => "python",
        ("", false) => "no python",
        (runtime, _) => runtime,
    };
    let name = format!("[{}]", runtime.to_lowercase());
    schema::Mapping {
        filename: strings.index(&printable(&name)),
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        ..schema::Mapping::default()
    }
}
