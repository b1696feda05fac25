//! What files say, remembered: the same interpreter and the same libraries are mapped by many
//! processes.
//!
//! Invariants: what could not be read is not remembered, so that it is tried again; at most
//! [`CAPACITY`] files are, and those that were not asked for the longest go first. Debug symbols
//! that are installed later are noticed when a file is looked into anew.

use std::{collections::HashMap, fs::File, path::Path, sync::Arc};

use super::{
    inspect::{self, Build, Effort, Finding, Unsupported},
    layouts::Sources,
    thread_pointer,
};
use crate::{
    binaries::elf::{self, DebugFiles, Elf, Segments},
    process::{FileIdentity, OpenError, file_name},
};

/// Most files that are remembered; a host has a few thousand that are mapped.
const CAPACITY: usize = 8192;

/// What a file says.
#[derive(Debug)]
pub(super) struct Facts {
    /// Its build ID.
    pub(super) build_id: Option<String>,
    /// Whether it contains CPython.
    pub(super) contents: Contents,
    /// Which machine it is for (`EM_X86_64`, …); 0 for what is no program.
    pub(super) machine: u16,
    /// Bytes of a thread's descriptor, if it is the C library.
    pub(super) thread_descriptor_bytes: Option<u64>,
}

/// What is in a file.
#[derive(Debug)]
pub(super) enum Contents {
    /// No CPython.
    Other,
    /// A program for another kind of machine.
    OtherClass,
    /// CPython.
    Python {
        /// Which, and where in the file.
        build: Box<Build>,
        /// Where it is loaded.
        segments: Segments,
    },
    /// CPython that cannot be profiled.
    Unsupported(Unsupported),
}

impl Facts {
    /// Reads a file that the process has at `path`.
    pub(super) fn read(
        file: File,
        path: &Path,
        effort: Effort,
        sources: Sources,
        debug_files: DebugFiles,
    ) -> Result<Self, OpenError> {
        let of = |contents| Self {
            build_id: None,
            contents,
            machine: 0,
            thread_descriptor_bytes: None,
        };
        let damaged = |_| OpenError::Damaged {
            path: path.to_owned(),
        };
        let elf = match Elf::read(file) {
            Ok(elf) => elf,
            Err(elf::Error::NotElf) => return Ok(of(Contents::Other)),
            Err(elf::Error::OtherClass) => return Ok(of(Contents::OtherClass)),
            Err(error) => return Err(damaged(error)),
        };
        let name = String::from_utf8_lossy(file_name(path));
        let debug_file = |elf: &Elf<File>| debug_files.find(elf);
        let found = inspect::inspect(&elf, &name, effort, sources, debug_file).map_err(damaged)?;
        Ok(Self {
            build_id: elf.build_id().ok().flatten(),
            machine: elf.machine(),
            thread_descriptor_bytes: thread_pointer::descriptor_bytes(&elf).map_err(damaged)?,
            contents: match found {
                Finding::NotPython => Contents::Other,
                Finding::Supported(build) => Contents::Python {
                    build: Box::new(build),
                    segments: elf.segments().clone(),
                },
                Finding::Unsupported(found) => Contents::Unsupported(found),
            },
        })
    }
}

/// The files that are remembered.
#[derive(Debug)]
pub(super) struct Files {
    capacity: usize,
    facts: HashMap<(FileIdentity, Effort), Entry>,
    /// Counts what is asked for.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    facts: Arc<Facts>,
    last_used: u64,
}

impl Default for Files {
    fn default() -> Self {
        Self::of_capacity(CAPACITY)
    }
}

impl Files {
    fn of_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            facts: HashMap::new(),
            clock: 0,
        }
    }

    /// What is remembered of a file.
    pub(super) fn get(&mut self, identity: FileIdentity, effort: Effort) -> Option<Arc<Facts>> {
        self.clock += 1;
        let entry = self.facts.get_mut(&(identity, effort))?;
        entry.last_used = self.clock;
        Some(Arc::clone(&entry.facts))
    }

    /// Remembers a file.
    pub(super) fn insert(
        &mut self,
        identity: FileIdentity,
        effort: Effort,
        facts: Facts,
    ) -> Arc<Facts> {
        if self.facts.len() >= self.capacity {
            self.forget_half();
        }
        self.clock += 1;
        let facts = Arc::new(facts);
        let entry = Entry {
            facts: Arc::clone(&facts),
            last_used: self.clock,
        };
        self.facts.insert((identity, effort), entry);
        facts
    }

    /// Forgets the half that was not asked for the longest: one at a time would have all looked
    /// through for each.
    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.facts.values().map(|entry| entry.last_used).collect();
        let middle = uses.len() / 2;
        if middle < uses.len() {
            let (_, median, _) = uses.select_nth_unstable(middle);
            let median = *median;
            self.facts.retain(|_, entry| entry.last_used > median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Contents, Effort, Facts, Files};
    use crate::process::FileIdentity;
    use std::fs::File;

    fn facts() -> Facts {
        Facts {
            build_id: None,
            contents: Contents::Other,
            machine: 0,
            thread_descriptor_bytes: None,
        }
    }

    #[test]
    fn a_file_that_was_changed_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let identity = || FileIdentity::of(&File::open(&path).unwrap()).unwrap();
        std::fs::write(&path, "one").unwrap();
        let first = identity();
        assert_eq!(first, identity());
        let mut files = Files::default();
        files.insert(first, Effort::All, facts());
        assert!(files.get(first, Effort::All).is_some());
        assert!(files.get(first, Effort::Exported).is_none());
        std::fs::write(&path, "other").unwrap();
        assert!(files.get(identity(), Effort::All).is_none());
    }

    #[test]
    fn what_is_used_is_not_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let identities: Vec<FileIdentity> = (0..100)
            .map(|number| {
                let file = File::create(directory.path().join(number.to_string())).unwrap();
                FileIdentity::of(&file).unwrap()
            })
            .collect();
        let mut files = Files::of_capacity(10);
        for identity in &identities {
            files.insert(*identity, Effort::All, facts());
            assert!(files.facts.len() <= 10);
            assert!(files.get(identities[0], Effort::All).is_some());
        }
        assert!(files.get(identities[99], Effort::All).is_some());
        assert!(files.get(identities[50], Effort::All).is_none());
    }
}
