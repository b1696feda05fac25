//! Whether a process runs CPython, which, and where.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use agent_common::layout::Layout;

use super::{
    error::Error,
    inspect::{self, Build, Effort, Finding, LayoutSource, Unsupported},
    version::Version,
};
use crate::{
    elf::{self, Elf, Placement},
    process::{
        OpenError, Process, file_name,
        maps::{FileId, Mapping},
    },
    profile,
};

/// The interpreter of a process.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// The file that contains it, as the process sees it.
    pub image: PathBuf,
    /// Address of the pointer to the newest interpreter state.
    pub interpreters_head: u64,
    /// Address of the pointer to the thread state that holds the GIL; [`None`] where the thread
    /// states themselves say it.
    pub gil_holder: Option<u64>,
    /// Where its fields are.
    pub layout: Layout,
    /// How that is known.
    pub layout_source: LayoutSource,
    /// The files that are mapped executable, the executable first.
    pub images: Vec<profile::Image>,
    /// Other interpreters that are loaded and, by the rules of the dynamic linker, not used.
    pub others: Vec<Candidate>,
}

/// A loaded interpreter.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The file that contains it.
    pub image: PathBuf,
    /// Its version.
    pub version: Version,
    /// Address of the pointer to its newest interpreter state.
    pub interpreters_head: u64,
}

/// Finds the interpreter of a process, by its files alone.
///
/// Where several files contain one, it is the executable's: what it exports comes before what
/// libraries export, so that they use its `_PyRuntime` and not their own. Otherwise it is that
/// of a library with Python's name, then of any other.
///
/// # Errors
///
/// When there is none that is supported, or that could not be learned.
pub fn detect(process: &Process) -> Result<Interpreter, Error> {
    let mappings = process.mappings()?;
    let mut search = Search {
        process,
        mappings: &mappings,
        candidates: Vec::new(),
        unsupported: None,
        not_loaded: None,
        not_64_bit: None,
        unread: 0,
        first_unread: None,
    };
    let mut files = mapped_files(process.executable(), &mappings);
    files.sort_by_key(|file| file.rank);
    let mut images = Vec::new();
    for file in &files {
        let build_id = search.look_into(file);
        let mapped = file.mappings.iter().map(|mapping| profile::Image {
            start: mapping.start,
            end: mapping.end,
            file_offset: mapping.file_offset,
            path: file.path.to_owned(),
            build_id: build_id.clone(),
        });
        images.extend(mapped);
    }
    search.finish(files.len(), images)
}

/// In which order files are looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Executable,
    PythonLibrary,
    Other,
}

/// A file that is mapped executable.
struct File<'a> {
    id: FileId,
    path: &'a Path,
    rank: Rank,
    /// Those of its mappings that are executable.
    mappings: Vec<&'a Mapping>,
}

/// The files that are mapped executable, by ascending address.
fn mapped_files<'a>(executable: &Path, mappings: &'a [Mapping]) -> Vec<File<'a>> {
    let mut files: Vec<File> = Vec::new();
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
        files.push(File {
            id: mapped.id,
            path: &mapped.path,
            rank,
            mappings: vec![mapping],
        });
    }
    files
}

/// What has been found in the files so far.
struct Search<'a> {
    process: &'a Process,
    mappings: &'a [Mapping],
    /// With the load bias of each.
    candidates: Vec<(PathBuf, Build, u64)>,
    unsupported: Option<(PathBuf, Unsupported)>,
    not_loaded: Option<PathBuf>,
    not_64_bit: Option<PathBuf>,
    /// How many files could not be read.
    unread: usize,
    /// Why the first of them could not.
    first_unread: Option<OpenError>,
}

impl Search<'_> {
    /// Looks for an interpreter in a file, and gives the file's build ID.
    fn look_into(&mut self, file: &File) -> Option<String> {
        let opened = match self.process.open_mapped(file.mappings.first()?) {
            Ok(opened) => opened,
            Err(error) => return self.note_unread(error),
        };
        let elf = match Elf::read(opened) {
            Ok(elf) => elf,
            Err(elf::Error::NotElf) => return None,
            Err(elf::Error::OtherClass) => {
                if file.rank == Rank::Executable {
                    self.not_64_bit = Some(file.path.to_owned());
                }
                return None;
            }
            Err(_) => return self.note_damaged(file),
        };
        if self.is_worth_inspecting(file.rank) {
            let effort = match file.rank {
                Rank::Other => Effort::Exported,
                Rank::Executable | Rank::PythonLibrary => Effort::All,
            };
            let name = String::from_utf8_lossy(file_name(file.path));
            match inspect::inspect(&elf, &name, effort) {
                Ok(Finding::NotPython) => {}
                Ok(Finding::Supported(build)) => self.locate(file, &elf, &build),
                Ok(Finding::Unsupported(found)) => {
                    self.unsupported
                        .get_or_insert_with(|| (file.path.to_owned(), found));
                }
                Err(_) => return self.note_damaged(file),
            }
        }
        elf.build_id().ok().flatten()
    }

    /// Notes a file that could not be read.
    fn note_unread(&mut self, why: OpenError) -> Option<String> {
        self.unread += 1;
        self.first_unread.get_or_insert(why);
        None
    }

    fn note_damaged(&mut self, file: &File) -> Option<String> {
        self.note_unread(OpenError::Damaged {
            path: file.path.to_owned(),
        })
    }

    /// Libraries without Python's name are only looked into while nothing else was found.
    fn is_worth_inspecting(&self, rank: Rank) -> bool {
        rank != Rank::Other
            || (self.candidates.is_empty()
                && self.unsupported.is_none()
                && self.not_loaded.is_none())
    }

    /// Finds the places at which the file's interpreter is loaded; a library can be loaded more
    /// than once.
    fn locate<S: elf::Source>(&mut self, file: &File, elf: &Elf<S>, build: &Build) {
        let biases: BTreeSet<u64> = file
            .mappings
            .iter()
            .filter_map(|mapping| {
                elf.segments().load_bias(Placement {
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
                self.candidates
                    .push((file.path.to_owned(), build.clone(), bias));
            } else {
                self.not_loaded.get_or_insert_with(|| file.path.to_owned());
            }
        }
    }

    fn finish(self, files: usize, images: Vec<profile::Image>) -> Result<Interpreter, Error> {
        let pid = self.process.pid();
        let executable = || self.process.executable().to_owned();
        let mut candidates = self.candidates.into_iter();
        if let Some((image, build, bias)) = candidates.next() {
            return Ok(Interpreter {
                version: build.version,
                image,
                interpreters_head: build.interpreters_head.wrapping_add(bias),
                gil_holder: build.gil_holder.map(|holder| holder.wrapping_add(bias)),
                layout: build.layout,
                layout_source: build.layout_source,
                images,
                others: candidates
                    .map(|(image, build, bias)| Candidate {
                        image,
                        version: build.version,
                        interpreters_head: build.interpreters_head.wrapping_add(bias),
                    })
                    .collect(),
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
