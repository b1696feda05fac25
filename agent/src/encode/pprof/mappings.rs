//! What locations lie in: the images of the processes, and what stands for their Python code.
//!
//! Invariants: ids are 1, 2, 3 …; the first process's executable comes first. Mappings of two
//! processes are one only if they are equal, as those of a process and its forks are.

use std::collections::HashMap;

use super::{schema, strings::Strings};
use crate::{
    encode::text::printable,
    profile::{Image, Process, ProcessIndex},
};

/// The mappings of a profile.
pub(super) struct Mappings {
    messages: Vec<schema::Mapping>,
    /// Ids; the id of a key is 0.
    ids: HashMap<schema::Mapping, u64>,
    /// What Python frames lie in, by [`ProcessIndex`].
    python: Vec<u64>,
}

impl Mappings {
    /// Of each process the images, then what its Python frames lie in.
    pub(super) fn new(processes: &[Process], strings: &mut Strings) -> Self {
        let mut mappings = Self {
            messages: Vec::new(),
            ids: HashMap::new(),
            python: Vec::with_capacity(processes.len()),
        };
        for process in processes {
            for image in &process.images {
                mappings.id(image_mapping(image, strings));
            }
            let python = mappings.id(python_mapping(process, strings));
            mappings.python.push(python);
        }
        mappings
    }

    /// The id of what Python frames of a process lie in.
    pub(super) fn python(&self, process: ProcessIndex) -> u64 {
        self.python[process.0 as usize]
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

fn image_mapping(image: &Image, strings: &mut Strings) -> schema::Mapping {
    schema::Mapping {
        memory_start: image.start,
        memory_limit: image.end,
        file_offset: image.file_offset,
        filename: strings.index(&printable(&image.path.to_string_lossy())),
        build_id: strings.index(image.build_id.as_deref().unwrap_or_default()),
        ..schema::Mapping::default()
    }
}

/// For example `[cpython 3.12.1]`; without an interpreter `[no python]`.
fn python_mapping(process: &Process, strings: &mut Strings) -> schema::Mapping {
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
