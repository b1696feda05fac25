//! What files say, remembered: the same interpreter and the same libraries are mapped by many
//! processes.
//!
//! Invariants: what could not be read is not remembered, so that it is tried again; at most
//! [`CAPACITY`] files are, and those that were not asked for the longest go first. Debug symbols
//! that are installed later are noticed when a file is looked into anew.

use std::{collections::HashMap, fs::File, path::Path, sync::Arc};

use super::{
    inspect::{self, Inspection, InterpreterBuild, SymbolScope, UnsupportedInterpreter},
    layouts::LayoutSources,
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
pub(super) struct InspectedFile {
    /// Its build ID.
    pub(super) build_id: Option<String>,
    /// Whether it contains CPython.
    pub(super) contents: FileContents,
    /// Which machine it is for (`EM_X86_64`, …); 0 for what is no program.
    pub(super) machine: u16,
    /// Bytes of a thread's descriptor, if it is the C library.
    pub(super) thread_descriptor_bytes: Option<u64>,
}

/// What is in a file.
#[derive(Debug)]
pub(super) enum FileContents {
    /// No CPython.
    Other,
    /// A program for another kind of machine.
    OtherClass,
    /// CPython.
    Python {
        /// Which, and where in the file.
        build: Box<InterpreterBuild>,
        /// Where it is loaded.
        segments: Segments,
    },
    /// CPython that cannot be profiled.
    Unsupported(UnsupportedInterpreter),
}

impl InspectedFile {
    /// Reads a file that the process has at `path`.
    pub(super) fn read(
        file: File,
        path: &Path,
        scope: SymbolScope,
        sources: LayoutSources,
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
            Err(elf::Error::NotElf) => return Ok(of(FileContents::Other)),
            Err(elf::Error::OtherClass) => return Ok(of(FileContents::OtherClass)),
            Err(error) => return Err(damaged(error)),
        };
        let name = String::from_utf8_lossy(file_name(path));
        let debug_file = |elf: &Elf<File>| debug_files.find(elf);
        let found = inspect::inspect(&elf, &name, scope, sources, debug_file).map_err(damaged)?;
        Ok(Self {
            build_id: elf.build_id().ok().flatten(),
            machine: elf.machine(),
            thread_descriptor_bytes: thread_pointer::descriptor_bytes(&elf).map_err(damaged)?,
            contents: match found {
                Inspection::NotPython => FileContents::Other,
                Inspection::Supported(build) => FileContents::Python {
                    build: Box::new(build),
                    segments: elf.segments().clone(),
                },
                Inspection::Unsupported(found) => FileContents::Unsupported(found),
            },
        })
    }
}

/// The files that are remembered.
#[derive(Debug)]
pub(super) struct FileCache {
    capacity: usize,
    files: HashMap<(FileIdentity, SymbolScope), CacheEntry>,
    /// Counts what is asked for.
    clock: u64,
}

#[derive(Debug)]
struct CacheEntry {
    file: Arc<InspectedFile>,
    last_used: u64,
}

impl Default for FileCache {
    fn default() -> Self {
        Self::of_capacity(CAPACITY)
    }
}

impl FileCache {
    fn of_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            files: HashMap::new(),
            clock: 0,
        }
    }

    /// What is remembered of a file.
    pub(super) fn get(
        &mut self,
        identity: FileIdentity,
        scope: SymbolScope,
    ) -> Option<Arc<InspectedFile>> {
        self.clock += 1;
        let entry = self.files.get_mut(&(identity, scope))?;
        entry.last_used = self.clock;
        Some(Arc::clone(&entry.file))
    }

    /// Remembers a file.
    pub(super) fn insert(
        &mut self,
        identity: FileIdentity,
        scope: SymbolScope,
        file: InspectedFile,
    ) -> Arc<InspectedFile> {
        if self.files.len() >= self.capacity {
            self.evict_half();
        }
        self.clock += 1;
        let file = Arc::new(file);
        let entry = CacheEntry {
            file: Arc::clone(&file),
            last_used: self.clock,
        };
        self.files.insert((identity, scope), entry);
        file
    }

    /// Forgets the half that was not asked for the longest: one at a time would have all looked
    /// through for each.
    fn evict_half(&mut self) {
        let mut uses: Vec<u64> = self.files.values().map(|entry| entry.last_used).collect();
        let middle = uses.len() / 2;
        if middle < uses.len() {
            let (_, median, _) = uses.select_nth_unstable(middle);
            let median = *median;
            self.files.retain(|_, entry| entry.last_used > median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FileCache, FileContents, InspectedFile, SymbolScope};
    use crate::process::FileIdentity;
    use std::fs::File;

    fn not_python() -> InspectedFile {
        InspectedFile {
            build_id: None,
            contents: FileContents::Other,
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
        let mut files = FileCache::default();
        files.insert(first, SymbolScope::All, not_python());
        assert!(files.get(first, SymbolScope::All).is_some());
        assert!(files.get(first, SymbolScope::Exported).is_none());
        std::fs::write(&path, "other").unwrap();
        assert!(files.get(identity(), SymbolScope::All).is_none());
    }

    #[test]
    fn recently_used_files_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let identities: Vec<FileIdentity> = (0..100)
            .map(|number| {
                let file = File::create(directory.path().join(number.to_string())).unwrap();
                FileIdentity::of(&file).unwrap()
            })
            .collect();
        let mut files = FileCache::of_capacity(10);
        for identity in &identities {
            files.insert(*identity, SymbolScope::All, not_python());
            assert!(files.files.len() <= 10);
            assert!(files.get(identities[0], SymbolScope::All).is_some());
        }
        assert!(files.get(identities[99], SymbolScope::All).is_some());
        assert!(files.get(identities[50], SymbolScope::All).is_none());
    }
}
