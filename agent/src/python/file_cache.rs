//! Cache of inspected files: many processes map the same interpreter and the same libraries.
//!
//! Invariants: errors are not cached, so that reading is tried again; at most [`CAPACITY`] files
//! are cached, and the least recently used half is evicted. Debug symbols that are installed later
//! take effect when a file is inspected again.

use std::{collections::HashMap, path::Path, sync::Arc};

use super::{
    asyncio::AsyncioOffsets,
    inspect::{self, Inspection, InterpreterBuild, SymbolScope, UnsupportedInterpreter},
    layouts::LayoutSources,
    thread_pointer,
};
use crate::{
    binaries::{
        elf::{self, DebugFiles, Elf, Segments},
        probe_points::{self, ProbePoint},
    },
    process::{FileIdentity, OpenError, RegularFile, file_name},
};

/// Most cached files; on a host a few thousand files are mapped.
const CAPACITY: usize = 8192;

/// The result of inspecting a file.
#[derive(Debug)]
pub(super) struct InspectedFile {
    /// Its build ID.
    pub(super) build_id: Option<String>,
    /// Whether it contains CPython.
    pub(super) contents: FileContents,
    /// `e_machine` of its ELF header (`EM_X86_64`, …); 0 where it is not a 64-bit ELF file.
    pub(super) machine: u16,
    /// Size of a thread descriptor in bytes, if it is the C library.
    pub(super) thread_descriptor_bytes: Option<u64>,
    /// The functions with which programs ask for memory, if it is an allocator.
    pub(super) allocating: Vec<ProbePoint>,
    /// Where it announces the allocations that it samples.
    pub(super) announced: Vec<ProbePoint>,
    /// Where asyncio has its tasks, if it is a file with that.
    pub(super) asyncio: Option<AsyncioOffsets>,
}

/// What a file contains.
#[derive(Debug)]
pub(super) enum FileContents {
    /// No CPython.
    Other,
    /// An ELF file that is not 64-bit.
    OtherClass,
    /// A supported CPython.
    Python {
        /// Version, layout and addresses.
        build: Box<InterpreterBuild>,
        /// Its loadable segments.
        segments: Segments,
    },
    /// An unsupported CPython.
    Unsupported(UnsupportedInterpreter),
}

impl InspectedFile {
    /// Inspects a file, which the process has mapped as `path`.
    pub(super) fn read(
        file: RegularFile,
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
            allocating: Vec::new(),
            announced: Vec::new(),
            asyncio: None,
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
        let debug_file = |elf: &Elf<RegularFile>| debug_files.find(elf);
        let found = inspect::inspect(&elf, &name, scope, sources, debug_file).map_err(damaged)?;
        Ok(Self {
            build_id: elf.build_id().ok().flatten(),
            machine: elf.machine(),
            thread_descriptor_bytes: thread_pointer::descriptor_bytes(&elf).map_err(damaged)?,
            allocating: probe_points::allocating(&elf, &name).map_err(damaged)?,
            announced: probe_points::announced(&elf).unwrap_or_default(),
            asyncio: AsyncioOffsets::in_file(&elf).map_err(damaged)?,
            contents: match found {
                Inspection::NotPython => FileContents::Other,
                Inspection::Supported(build) => FileContents::Python {
                    build,
                    segments: elf.segments().clone(),
                },
                Inspection::Unsupported(found) => FileContents::Unsupported(found),
            },
        })
    }
}

/// Cache of inspected files, by identity and scope.
#[derive(Debug)]
pub(super) struct FileCache {
    capacity: usize,
    files: HashMap<(FileIdentity, SymbolScope), CacheEntry>,
    /// Incremented by every access.
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

    /// The cached result for a file.
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

    /// Adds a file.
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

    /// Evicts the least recently used half: evicting single entries would scan all of them each
    /// time.
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
    use crate::process::{FileIdentity, RegularFile};
    use std::fs::File;

    fn not_python() -> InspectedFile {
        InspectedFile {
            build_id: None,
            contents: FileContents::Other,
            machine: 0,
            thread_descriptor_bytes: None,
            allocating: Vec::new(),
            announced: Vec::new(),
            asyncio: None,
        }
    }

    #[test]
    fn a_file_that_was_changed_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let identity = || {
            RegularFile::from(File::open(&path).unwrap())
                .identity()
                .unwrap()
        };
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
                RegularFile::from(file).identity().unwrap()
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
