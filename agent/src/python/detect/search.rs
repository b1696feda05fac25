//! The search for an interpreter through the files that a process maps.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_common::limits::MAX_ANNOUNCING_FILES;

use super::super::{
    asyncio::AsyncioOffsets,
    error::Error,
    file_cache::{FileContents, InspectedFile},
    inspect::{InterpreterBuild, UnsupportedInterpreter},
    interpreter::{Interpreter, OtherInterpreter, ProbeSite},
    program::Program,
    thread_pointer,
};
use crate::{
    binaries::elf::{Placement, Segments},
    process::{
        OpenError, file_name,
        maps::{FileId, Mapping},
    },
    profile,
};

/// How the name of the extension begins with which asyncio is accelerated.
const ASYNCIO_FILE: &[u8] = b"_asyncio";

/// Order of precedence of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Executable,
    PythonLibrary,
    Other,
}

/// A file that is mapped executable.
pub(super) struct ExecutableFile<'a> {
    id: FileId,
    pub(super) path: &'a Path,
    pub(super) rank: Rank,
    /// Its executable mappings.
    pub(super) mappings: Vec<&'a Mapping>,
}

/// The files that are mapped executable, by ascending address.
pub(super) fn mapped_files<'a>(
    executable: &Path,
    mappings: &'a [Mapping],
) -> Vec<ExecutableFile<'a>> {
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
pub(super) struct Search<'a> {
    process: &'a dyn Program,
    mappings: &'a [Mapping],
    candidates: Vec<LoadedImage>,
    unsupported: Option<(PathBuf, UnsupportedInterpreter)>,
    not_loaded: Option<PathBuf>,
    not_64_bit: Option<PathBuf>,
    /// Size of a thread descriptor of the C library in bytes.
    thread_descriptor_bytes: Option<u64>,
    allocators: Vec<ProbeSite>,
    announced: Vec<ProbeSite>,
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

impl<'a> Search<'a> {
    pub(super) fn new(process: &'a dyn Program, mappings: &'a [Mapping]) -> Self {
        Self {
            process,
            mappings,
            candidates: Vec::new(),
            unsupported: None,
            not_loaded: None,
            not_64_bit: None,
            thread_descriptor_bytes: None,
            allocators: Vec::new(),
            announced: Vec::new(),
            asyncio: None,
            unread: 0,
            first_unread: None,
        }
    }

    /// Adds the result of inspecting a file.
    pub(super) fn add(
        &mut self,
        file: &ExecutableFile,
        inspected: Result<Arc<InspectedFile>, OpenError>,
    ) {
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
        let site = |points| ProbeSite::of(file.mappings.iter().copied(), points);
        self.allocators.extend(site(&inspected.allocating));
        // What functions with probes record is not recorded once more.
        if inspected.allocating.is_empty() && self.announced.len() < MAX_ANNOUNCING_FILES {
            self.announced.extend(site(&inspected.announced));
        }
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

    pub(super) fn finish(
        self,
        files: usize,
        images: Vec<profile::Image>,
    ) -> Result<Interpreter, Error> {
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
                announced: self.announced,
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
