//! Mappings: the executables of native and kernel frames, one mapping per runtime for Python frames, and
//! the other images of the processes.
//!
//! Invariants: ids are 1, 2, 3 …; the executable of the first process is first. Equal mappings of
//! several processes, such as those of forks, are merged; an executable has one mapping for all
//! processes, in the file's own address space.

use std::collections::HashMap;

use super::{schema, string_table::StringTable};
use crate::{
    profile::{
        Executable, ExecutableId, ExecutableKind, Image, Location, Process, ProcessIndex, Profile,
    },
    text::printable,
};

/// The mappings of a profile.
pub(super) struct Mappings {
    messages: Vec<schema::Mapping>,
    /// Ids of mappings; in the keys the id is 0.
    ids: HashMap<schema::Mapping, u64>,
    /// Mapping of Python frames, by [`ProcessIndex`].
    python: Vec<u64>,
    /// Mapping of native and kernel frames, by [`ExecutableId`].
    executables: Vec<u64>,
}

impl Mappings {
    /// Adds for each process its images or its executable; then the executables of native and kernel
    /// frames; then the mappings of Python frames.
    pub(super) fn new(profile: &Profile, strings: &mut StringTable) -> Self {
        let mut mappings = Self {
            messages: Vec::new(),
            ids: HashMap::new(),
            python: Vec::with_capacity(profile.processes.len()),
            executables: Vec::with_capacity(profile.executables.len()),
        };
        let symbols = KnownSymbols::of_executables(profile);
        let executables: Vec<_> = profile
            .executables
            .iter()
            .zip(symbols)
            .map(|(executable, symbols)| executable_mapping(executable, symbols, strings))
            .collect();
        // Executables that are also images of processes, by path and build ID.
        let images: HashMap<_, _> = executables
            .iter()
            .map(|mapping| ((mapping.filename, mapping.build_id), *mapping))
            .collect();
        for process in &profile.processes {
            for image in &*process.images {
                let mapping = image_mapping(image, strings);
                let key = (mapping.filename, mapping.build_id);
                mappings.id(images.get(&key).copied().unwrap_or(mapping));
            }
            if process.images.is_empty() {
                let mut files = profile.executables.iter().zip(&executables);
                let own = files.find(|(file, _)| {
                    file.kind == ExecutableKind::File && file.path == process.executable
                });
                if let Some((_, mapping)) = own {
                    mappings.id(*mapping);
                }
            }
            if process.is_python {
                mappings.id(python_mapping(process, strings));
            }
        }
        for mapping in executables {
            let id = mappings.id(mapping);
            mappings.executables.push(id);
        }
        // Markers have no code either, and may be in any process.
        let has_others = profile.locations.iter().any(|it| it.code.is_none());
        for process in &profile.processes {
            let python = if process.is_python || has_others {
                mappings.id(python_mapping(process, strings))
            } else {
                0
            };
            mappings.python.push(python);
        }
        mappings
    }

    /// The id of the mapping of a location in a process.
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

/// Whether locations of an executable are symbolized.
#[derive(Clone, Copy, Default)]
struct KnownSymbols {
    has_named: bool,
    has_unnamed: bool,
    has_inlined: bool,
}

impl KnownSymbols {
    /// By [`ExecutableId`].
    fn of_executables(profile: &Profile) -> Vec<Self> {
        let mut symbols = vec![Self::default(); profile.executables.len()];
        for location in &profile.locations {
            let Some(code) = location.code else {
                continue;
            };
            let ExecutableId(index) = code.executable;
            let symbols = &mut symbols[index as usize];
            match location.lines.len() {
                0 => symbols.has_unnamed = true,
                lines => {
                    symbols.has_named = true;
                    symbols.has_inlined |= lines > 1;
                }
            }
        }
        symbols
    }
}

fn image_mapping(image: &Image, strings: &mut StringTable) -> schema::Mapping {
    schema::Mapping {
        memory_start: image.start,
        memory_limit: image.end,
        file_offset: image.file_offset,
        filename: strings.index(&printable(&image.path.to_string_lossy())),
        build_id: strings.index(image.build_id.as_deref().unwrap_or_default()),
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
