//! Detects the CPython interpreter of a process: version, layout and addresses.

#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent_common::layout::{Layout, RunningTaskLayout};

use super::{
    asyncio::AsyncioOffsets,
    error::Error,
    file_cache::{FileCache, FileContents, InspectedFile},
    gil::GilLocation,
    inspect::{Flavour, InterpreterBuild, SymbolScope, UnsupportedInterpreter},
    layouts::{LayoutSource, LayoutSources, RejectedSource},
    program::Program,
    thread_pointer,
    version::Version,
};
use crate::{
    binaries::{
        elf::{Placement, Segments},
        probe_points::{self, ProbePoint},
    },
    process::{
        self, OpenError, file_name,
        maps::{FileId, Mapping},
    },
    profile,
};

/// How the name of the extension begins with which asyncio is accelerated.
const ASYNCIO_FILE: &[u8] = b"_asyncio";

/// The interpreter of a process.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// How it was built.
    pub flavour: Flavour,
    /// The file that contains it, as a path in the mount namespace of the process.
    pub image: PathBuf,
    /// Address of the pointer to the newest interpreter state.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL; [`None`] where the thread
    /// states have a flag for it.
    pub gil_holder: Option<u64>,
    /// The words on which threads wait for the GIL.
    pub gil: GilLocation,
    /// Where exceptions can be recorded; [`None`] where the file does not say where that is.
    pub raise_site: Option<ProbeSite>,
    /// Where allocations can be recorded.
    pub allocators: Vec<ProbeSite>,
    /// Where asyncio has its tasks; [`None`] where it was not imported, or does not say so (up to 3.13).
    pub asyncio: Option<AsyncioOffsets>,
    /// Bytes to subtract from the thread pointer to get `pthread_self()`.
    pub thread_pointer_distance: u64,
    /// Whether an interpreter state exists, so that there is something to profile; [`None`] when
    /// access to the memory of the process is denied.
    pub is_initialised: Option<bool>,
    /// The layout of its structures.
    pub layout: Layout,
    /// Where the layout comes from.
    pub layout_source: LayoutSource,
    /// Preferred sources of the layout that could not be used.
    pub rejected_sources: Vec<RejectedSource>,
    /// The executable mappings of files, those of the executable first.
    pub images: Arc<[profile::Image]>,
    /// Other loaded interpreters, the initialised ones first.
    pub others: Vec<OtherInterpreter>,
}

impl Interpreter {
    /// Whether the process may be about to map its libraries: the dynamic linker has mapped the file with the
    /// interpreter, which does not run yet.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.is_initialised == Some(false)
    }

    /// The code of the allocator that the process has instead of the C library's.
    #[must_use]
    pub fn replacing_allocator(&self) -> Option<&Mapping> {
        let mut mappings = self.allocators.iter().map(|site| &site.mapping);
        mappings.find(|mapping| {
            let file = mapping.file.as_ref();
            let name = file.map(|file| String::from_utf8_lossy(file_name(&file.path)));
            name.is_some_and(|name| probe_points::is_allocator(&name))
        })
    }

    /// Where it has the tasks that its threads run.
    #[must_use]
    pub fn running_task(&self) -> RunningTaskLayout {
        let offsets = self.asyncio.as_ref();
        offsets.map_or(RunningTaskLayout::UNKNOWN, AsyncioOffsets::running_task)
    }
}

/// Functions in a file that is mapped, at whose entries probes can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSite {
    /// The mapping of the code of one of them.
    pub mapping: Mapping,
    /// The functions.
    pub points: Vec<ProbePoint>,
}

/// A loaded interpreter that was not chosen.
#[derive(Clone, Debug)]
pub struct OtherInterpreter {
    /// The file that contains it.
    pub image: PathBuf,
    /// Its version.
    pub version: Version,
    /// Address of the pointer to its newest interpreter state.
    pub interpreters_head: u64,
    /// Whether an interpreter state exists; [`None`] when access to the memory of the process is
    /// denied.
    pub is_initialised: Option<bool>,
}

/// Detects interpreters, with a cache of inspected files.
///
/// For another process that maps a cached file only the identity of the file is read.
#[derive(Debug, Default)]
pub struct Detector {
    sources: LayoutSources,
    /// Locked for look-ups only, not while a file is read.
    files: Mutex<FileCache>,
    #[cfg(feature = "testing")]
    files_read: AtomicU64,
}

impl Detector {
    /// A detector that uses only some of the sources of layouts.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_sources(sources: LayoutSources) -> Self {
        Self {
            sources,
            ..Self::default()
        }
    }

    /// Number of files that were inspected so far, without hits of the cache.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn files_read(&self) -> u64 {
        self.files_read.load(Ordering::Relaxed)
    }

    /// Detects the interpreter of a process, or of its core dump.
    ///
    /// Where several files contain one, the initialised one is chosen. Where none or several are
    /// initialised, that of the executable takes precedence, since its exported symbols take
    /// precedence over those of libraries, which then use its `_PyRuntime`; then that of a library
    /// named `libpython…`, then any other.
    ///
    /// # Errors
    ///
    /// When there is no supported interpreter, when this could not be determined, or when the
    /// process has started another program meanwhile.
    pub fn detect<P: Program>(&self, process: &P) -> Result<Interpreter, Error> {
        let mappings = process.mappings()?;
        let mut search = Search {
            process,
            mappings: &mappings,
            candidates: Vec::new(),
            unsupported: None,
            not_loaded: None,
            not_64_bit: None,
            thread_descriptor_bytes: None,
            allocators: Vec::new(),
            asyncio: None,
            unread: 0,
            first_unread: None,
        };
        let mut files = mapped_files(process.executable(), &mappings);
        files.sort_by_key(|file| file.rank);
        let mut images = Vec::new();
        for file in &files {
            let inspected = self.inspect(process, file);
            let build_id = inspected
                .as_ref()
                .ok()
                .and_then(|inspected| inspected.build_id.clone());
            search.add(file, inspected);
            let mapped = file.mappings.iter().map(|mapping| profile::Image {
                start: mapping.start,
                end: mapping.end,
                file_offset: mapping.file_offset,
                path: file.path.to_owned(),
                build_id: build_id.clone(),
            });
            images.extend(mapped);
        }
        let found = search.finish(files.len(), images);
        // After an `exec` the result could mix two programs.
        if !process.is_same_program() {
            let pid = process.pid();
            return Err(process::Error::Replaced { pid }.into());
        }
        found
    }

    fn files(&self) -> MutexGuard<'_, FileCache> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inspects a file, or takes the result from the cache.
    fn inspect(
        &self,
        process: &dyn Program,
        file: &ExecutableFile,
    ) -> Result<Arc<InspectedFile>, OpenError> {
        let mapping = file.mappings.first().ok_or(OpenError::Anonymous)?;
        let scope = match file.rank {
            Rank::Other => SymbolScope::Exported,
            Rank::Executable | Rank::PythonLibrary => SymbolScope::All,
        };
        let identity = process.identify_mapped(mapping)?;
        if let Some(inspected) = self.files().get(identity, scope) {
            return Ok(inspected);
        }
        let opened = process.open_mapped(mapping)?;
        // Of the opened file: the mapping may have changed since.
        let identity = opened.identity().map_err(|source| OpenError::Open {
            path: file.path.to_owned(),
            source,
        })?;
        #[cfg(feature = "testing")]
        {
            self.files_read.fetch_add(1, Ordering::Relaxed);
        }
        let debug_files = process.debug_files(file.path);
        let inspected = InspectedFile::read(opened, file.path, scope, self.sources, debug_files)?;
        Ok(self.files().insert(identity, scope, inspected))
    }
}

/// Order of precedence of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Executable,
    PythonLibrary,
    Other,
}

/// A file that is mapped executable.
struct ExecutableFile<'a> {
    id: FileId,
    path: &'a Path,
    rank: Rank,
    /// Its executable mappings.
    mappings: Vec<&'a Mapping>,
}

/// The files that are mapped executable, by ascending address.
fn mapped_files<'a>(executable: &Path, mappings: &'a [Mapping]) -> Vec<ExecutableFile<'a>> {
    let mut files: Vec<ExecutableFile> = Vec::new();
    for mapping in mappings {
        let Some(mapped) = &mapping.file else {
            continue;
        };
        if !mapping.permissions.execute {
            continue;
        }
        if let Some(file) = files.iter_mut().find(|file| file.id == mapped.id) {
            file.mappings.push(mapping);
            continue;
        }
        let rank = if mapped.path == executable {
            Rank::Executable
        } else if file_name(&mapped.path).starts_with(b"libpython") {
            Rank::PythonLibrary
        } else {
            Rank::Other
        };
        files.push(ExecutableFile {
            id: mapped.id,
            path: &mapped.path,
            rank,
            mappings: vec![mapping],
        });
    }
    files
}

/// A loaded file with an interpreter.
struct LoadedImage {
    image: PathBuf,
    inspected: Arc<InspectedFile>,
    bias: u64,
    is_initialised: Option<bool>,
}

/// State of the search through the files of a process.
struct Search<'a> {
    process: &'a dyn Program,
    mappings: &'a [Mapping],
    candidates: Vec<LoadedImage>,
    unsupported: Option<(PathBuf, UnsupportedInterpreter)>,
    not_loaded: Option<PathBuf>,
    not_64_bit: Option<PathBuf>,
    /// Size of a thread descriptor of the C library in bytes.
    thread_descriptor_bytes: Option<u64>,
    allocators: Vec<ProbeSite>,
    asyncio: Option<AsyncioOffsets>,
    /// Number of files that could not be read.
    unread: usize,
    /// Why the first of them could not be read.
    first_unread: Option<OpenError>,
}

impl LoadedImage {
    fn interpreter(&self) -> Option<(OtherInterpreter, &InterpreterBuild, u64)> {
        let FileContents::Python { build, .. } = &self.inspected.contents else {
            return None;
        };
        let interpreter = OtherInterpreter {
            image: self.image.clone(),
            version: build.version,
            interpreters_head: build.interpreters_head.wrapping_add(self.bias),
            is_initialised: self.is_initialised,
        };
        Some((interpreter, build, self.bias))
    }
}

impl Search<'_> {
    /// Adds the result of inspecting a file.
    fn add(&mut self, file: &ExecutableFile, inspected: Result<Arc<InspectedFile>, OpenError>) {
        let inspected = match inspected {
            Ok(inspected) => inspected,
            Err(OpenError::NotElf { .. }) if file.rank == Rank::Other => return,
            Err(why) => {
                self.unread += 1;
                self.first_unread.get_or_insert(why);
                return;
            }
        };
        self.thread_descriptor_bytes = self
            .thread_descriptor_bytes
            .or(inspected.thread_descriptor_bytes);
        let mappings = file.mappings.iter().copied();
        let allocator = ProbeSite::of(mappings, &inspected.allocating);
        self.allocators.extend(allocator);
        if file.rank != Rank::Other || file_name(file.path).starts_with(ASYNCIO_FILE) {
            self.asyncio = self.asyncio.or(inspected.asyncio);
        }
        match &inspected.contents {
            FileContents::Other => {}
            FileContents::OtherClass => {
                if file.rank == Rank::Executable {
                    self.not_64_bit = Some(file.path.to_owned());
                }
            }
            FileContents::Unsupported(found) => {
                self.unsupported
                    .get_or_insert_with(|| (file.path.to_owned(), found.clone()));
            }
            FileContents::Python { build, segments } => {
                self.locate(file, &inspected, build, segments);
            }
        }
    }

    /// Adds every load address of the file's interpreter; a library can be loaded more than once.
    fn locate(
        &mut self,
        file: &ExecutableFile,
        inspected: &Arc<InspectedFile>,
        build: &InterpreterBuild,
        segments: &Segments,
    ) {
        let biases: BTreeSet<u64> = file
            .mappings
            .iter()
            .filter_map(|mapping| {
                segments.load_bias(Placement {
                    start: mapping.start,
                    file_offset: mapping.file_offset,
                    is_executable: true,
                })
            })
            .collect();
        for bias in biases {
            let head = build.interpreters_head.wrapping_add(bias);
            if self.is_data(head) {
                let newest = self.process.word(head);
                self.candidates.push(LoadedImage {
                    image: file.path.to_owned(),
                    inspected: Arc::clone(inspected),
                    bias,
                    // Until the dynamic linker has cleared it, it may be whatever follows the data in the file.
                    is_initialised: newest.map(|newest| self.is_data(newest)),
                });
            } else {
                self.not_loaded.get_or_insert_with(|| file.path.to_owned());
            }
        }
    }

    /// Whether the process can have data at an address.
    fn is_data(&self, address: u64) -> bool {
        let mut mappings = self.mappings.iter();
        mappings.any(|mapping| mapping.permissions.write && mapping.contains(address))
    }

    fn finish(self, files: usize, images: Vec<profile::Image>) -> Result<Interpreter, Error> {
        let pid = self.process.pid();
        let executable = || self.process.executable().to_owned();
        // The sort is stable: the initialised ones come first, in order of precedence.
        let mut candidates = self.candidates;
        candidates.sort_by_key(|loaded| loaded.is_initialised != Some(true));
        let machine = candidates
            .first()
            .map_or(0, |first| first.inspected.machine);
        let mut candidates = candidates.iter().filter_map(LoadedImage::interpreter);
        if let Some((first, build, bias)) = candidates.next() {
            let of_image = self.mappings.iter().filter(|mapping| {
                let file = mapping.file.as_ref();
                file.is_some_and(|file| file.path == first.image)
            });
            let traceback = build.traceback.as_slice();
            let raise_site = ProbeSite::of(of_image, traceback);
            return Ok(Interpreter {
                version: first.version,
                flavour: build.flavour,
                image: first.image,
                interpreters_head: first.interpreters_head,
                gil_holder: build.gil_holder.map(|holder| holder.wrapping_add(bias)),
                gil: build.gil.loaded_at(bias),
                raise_site,
                allocators: self.allocators,
                asyncio: self.asyncio,
                thread_pointer_distance: thread_pointer::distance(
                    machine,
                    self.thread_descriptor_bytes,
                ),
                is_initialised: first.is_initialised,
                layout: build.layout,
                layout_source: build.layout_source,
                rejected_sources: build.rejected_sources.clone(),
                images: images.into(),
                others: candidates.map(|(other, _, _)| other).collect(),
            });
        }
        Err(if let Some((image, found)) = self.unsupported {
            Error::unsupported(pid, &image, found)
        } else if let Some(image) = self.not_loaded {
            Error::NotLoaded { pid, image }
        } else if let Some(image) = self.not_64_bit {
            Error::Not64Bit { pid, image }
        } else if let Some(first) = self.first_unread {
            Error::Unreadable {
                pid,
                executable: executable(),
                files,
                unread: self.unread,
                first,
            }
        } else {
            Error::NotPython {
                pid,
                executable: executable(),
                files,
            }
        })
    }
}

impl ProbeSite {
    /// These functions of a file with these mappings, if its code is mapped.
    fn of<'a>(
        mut mappings: impl Iterator<Item = &'a Mapping>,
        points: &[ProbePoint],
    ) -> Option<Self> {
        let first = points.first()?;
        let has_code = |mapping: &&Mapping| {
            let bytes = mapping.end - mapping.start;
            let into = first.offset.checked_sub(mapping.file_offset);
            into.is_some_and(|into| into < bytes) && mapping.permissions.execute
        };
        Some(Self {
            mapping: mappings.find(has_code)?.clone(),
            points: points.to_vec(),
        })
    }
}
