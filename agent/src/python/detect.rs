//! Whether a process runs CPython, which, and where.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_common::layout::Layout;

use super::{
    error::Error,
    file_cache::{FileCache, FileContents, InspectedFile},
    inspect::{Flavour, InterpreterBuild, SymbolScope, UnsupportedInterpreter},
    layouts::{LayoutSource, LayoutSources, RejectedSource},
    thread_pointer,
    version::Version,
};
use crate::{
    binaries::elf::{DebugFiles, Placement, Segments},
    process::{
        self, FileIdentity, OpenError, Process, file_name,
        maps::{FileId, Mapping},
    },
    profile,
};

/// The interpreter of a process.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// How it was built.
    pub flavour: Flavour,
    /// The file that contains it, as the process sees it.
    pub image: PathBuf,
    /// Address of the pointer to the newest interpreter state.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL; [`None`] where the thread
    /// states themselves say it.
    pub gil_holder: Option<u64>,
    /// What is to be taken from a thread's pointer to get its `pthread_self()`, in bytes.
    pub thread_pointer_distance: u64,
    /// Whether it has an interpreter state, so that there is something to profile; [`None`] when
    /// the memory of the process may not be read.
    pub is_initialised: Option<bool>,
    /// Where its fields are.
    pub layout: Layout,
    /// How that is known.
    pub layout_source: LayoutSource,
    /// Better sources that could not be used.
    pub rejected_sources: Vec<RejectedSource>,
    /// The files that are mapped executable, the executable first.
    pub images: Arc<[profile::Image]>,
    /// Other interpreters that are loaded, those that are in use first.
    pub others: Vec<OtherInterpreter>,
}

/// A loaded interpreter.
#[derive(Clone, Debug)]
pub struct OtherInterpreter {
    /// The file that contains it.
    pub image: PathBuf,
    /// Its version.
    pub version: Version,
    /// Address of the pointer to its newest interpreter state.
    pub interpreters_head: u64,
    /// Whether it has one; [`None`] when the memory of the process may not be read.
    pub is_initialised: Option<bool>,
}

/// Finds interpreters, and remembers what files say.
///
/// Once a file has been looked into, every other process that maps it costs no more than its
/// identity.
#[derive(Debug, Default)]
pub struct Detector {
    sources: LayoutSources,
    files: FileCache,
    #[cfg(feature = "testing")]
    files_read: u64,
}

impl Detector {
    /// One that only uses some of the sources of layouts.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_sources(sources: LayoutSources) -> Self {
        Self {
            sources,
            ..Self::default()
        }
    }

    /// How many files it has looked into so far.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn files_read(&self) -> u64 {
        self.files_read
    }

    /// Finds the interpreter of a process.
    ///
    /// Where several files contain one, it is the one that is in use, that is, has an interpreter
    /// state. Where that is none yet, or several, the executable's comes first: what it exports
    /// comes before what libraries export, so that they use its `_PyRuntime` and not their own.
    /// Then that of a library with Python's name, then of any other.
    ///
    /// # Errors
    ///
    /// When there is none that is supported, or that could not be learned, or the process has
    /// meanwhile started another program.
    pub fn detect(&mut self, process: &Process) -> Result<Interpreter, Error> {
        let mappings = process.mappings()?;
        let mut search = Search {
            process,
            mappings: &mappings,
            candidates: Vec::new(),
            unsupported: None,
            not_loaded: None,
            not_64_bit: None,
            thread_descriptor_bytes: None,
            unread: 0,
            first_unread: None,
        };
        let mut files = mapped_files(process.executable(), &mappings);
        files.sort_by_key(|file| file.rank);
        let mut images = Vec::new();
        for file in &files {
            let facts = self.facts(process, file);
            let build_id = facts.as_ref().ok().and_then(|facts| facts.build_id.clone());
            search.take(file, facts);
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
        // What was found may be made of two programs.
        if !process.is_same_program() {
            let pid = process.pid();
            return Err(process::Error::Replaced { pid }.into());
        }
        found
    }

    /// What a file says, remembered or read.
    fn facts(
        &mut self,
        process: &Process,
        file: &ExecutableFile,
    ) -> Result<Arc<InspectedFile>, OpenError> {
        let mapping = file.mappings.first().ok_or(OpenError::Anonymous)?;
        let scope = match file.rank {
            Rank::Other => SymbolScope::Exported,
            Rank::Executable | Rank::PythonLibrary => SymbolScope::All,
        };
        let identity = process.identify_mapped(mapping)?;
        if let Some(facts) = self.files.get(identity, scope) {
            return Ok(facts);
        }
        let opened = process.open_mapped(mapping)?;
        // The one that was opened, should it be another one by now.
        let identity = FileIdentity::of(&opened).map_err(|source| OpenError::Open {
            path: file.path.to_owned(),
            source,
        })?;
        #[cfg(feature = "testing")]
        {
            self.files_read += 1;
        }
        let debug_files = DebugFiles::of(process, file.path);
        let facts = InspectedFile::read(opened, file.path, scope, self.sources, debug_files)?;
        Ok(self.files.insert(identity, scope, facts))
    }
}

/// In which order files are looked into.
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
    /// Those of its mappings that are executable.
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

/// A place at which an interpreter is loaded.
struct LoadedImage {
    image: PathBuf,
    facts: Arc<InspectedFile>,
    bias: u64,
    is_initialised: Option<bool>,
}

/// What has been found in the files so far.
struct Search<'a> {
    process: &'a Process,
    mappings: &'a [Mapping],
    candidates: Vec<LoadedImage>,
    unsupported: Option<(PathBuf, UnsupportedInterpreter)>,
    not_loaded: Option<PathBuf>,
    not_64_bit: Option<PathBuf>,
    /// Of the C library.
    thread_descriptor_bytes: Option<u64>,
    /// How many files could not be read.
    unread: usize,
    /// Why the first of them could not.
    first_unread: Option<OpenError>,
}

impl LoadedImage {
    fn interpreter(&self) -> Option<(OtherInterpreter, &InterpreterBuild, u64)> {
        let FileContents::Python { build, .. } = &self.facts.contents else {
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
    /// Takes what a file says.
    fn take(&mut self, file: &ExecutableFile, facts: Result<Arc<InspectedFile>, OpenError>) {
        let facts = match facts {
            Ok(facts) => facts,
            Err(why) => {
                self.unread += 1;
                self.first_unread.get_or_insert(why);
                return;
            }
        };
        self.thread_descriptor_bytes = self
            .thread_descriptor_bytes
            .or(facts.thread_descriptor_bytes);
        match &facts.contents {
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
            FileContents::Python { build, segments } => self.locate(file, &facts, build, segments),
        }
    }

    /// Finds the places at which the file's interpreter is loaded; a library can be loaded more
    /// than once.
    fn locate(
        &mut self,
        file: &ExecutableFile,
        facts: &Arc<InspectedFile>,
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
            let is_loaded = self
                .mappings
                .iter()
                .any(|mapping| mapping.permissions.write && mapping.contains(head));
            if is_loaded {
                let memory = self.process.memory();
                let newest = memory.ok().and_then(|memory| memory.word(head).ok());
                self.candidates.push(LoadedImage {
                    image: file.path.to_owned(),
                    facts: Arc::clone(facts),
                    bias,
                    is_initialised: newest.map(|newest| newest != 0),
                });
            } else {
                self.not_loaded.get_or_insert_with(|| file.path.to_owned());
            }
        }
    }

    fn finish(self, files: usize, images: Vec<profile::Image>) -> Result<Interpreter, Error> {
        let pid = self.process.pid();
        let executable = || self.process.executable().to_owned();
        // The sort is stable: those that are in use, in the order in which they were found.
        let mut candidates = self.candidates;
        candidates.sort_by_key(|loaded| loaded.is_initialised != Some(true));
        let machine = candidates.first().map_or(0, |first| first.facts.machine);
        let mut candidates = candidates.iter().filter_map(LoadedImage::interpreter);
        if let Some((first, build, bias)) = candidates.next() {
            return Ok(Interpreter {
                version: first.version,
                flavour: build.flavour,
                image: first.image,
                interpreters_head: first.interpreters_head,
                gil_holder: build.gil_holder.map(|holder| holder.wrapping_add(bias)),
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
