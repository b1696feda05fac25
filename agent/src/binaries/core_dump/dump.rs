//! A core dump as the memory, the mappings and the threads of its process.

use std::path::{Path, PathBuf};

use super::{
    arguments,
    error::CoreError,
    headers::{Headers, Segment},
    mapped::{MappedFile, START_BYTES},
    notes::{CoreThread, FileRange, Notes, Signal},
    status,
};
use crate::{
    binaries::elf::Source,
    process::{
        OpenError, RegularFile, RootDirectory,
        maps::{self, FileId, Mapping, Permissions},
        open_on_host,
    },
};

/// Opens a file that the process had mapped.
type Open = Box<dyn Fn(&Path) -> Result<RegularFile, OpenError> + Send + Sync>;

/// What is known of a mapping that gdb has left out.
const LEFT_OUT: Permissions = Permissions {
    read: true,
    write: false,
    execute: true,
};

/// A core dump.
pub struct CoreDump<S = RegularFile> {
    source: S,
    headers: Headers,
    notes: Notes,
    /// By the index of [`Notes::files`].
    files: Vec<MappedFile>,
    open: Open,
    executable: PathBuf,
}

/// Not all of the range is in the dump or in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent;

impl CoreDump {
    /// Opens the core dump at `path`; the files that the process had mapped are those below `root`, else those of this
    /// machine.
    ///
    /// # Errors
    ///
    /// When it is none that can be read, or there is no such directory.
    pub fn open(path: &Path, root: Option<&Path>) -> Result<Self, CoreError> {
        let absolute = std::path::absolute(path).map_err(|source| CoreError::Read {
            path: path.to_owned(),
            source,
        })?;
        let file = open_on_host(&absolute)?;
        let Some(root) = root else {
            return Self::read(file, path, open_on_host);
        };
        let root = RootDirectory::open(root)?;
        Self::read(file, path, move |path: &Path| root.open_file(path))
    }

    /// Opens a file that the process had, by its absolute path.
    ///
    /// # Errors
    ///
    /// When it cannot be opened or is not a regular file.
    pub fn open_file(&self, path: &Path) -> Result<RegularFile, OpenError> {
        (self.open)(path)
    }

    /// The user that owns the file.
    #[must_use]
    pub fn owner(&self) -> Option<u64> {
        self.source.owner().ok()
    }

    /// Whether a file was changed after the dump was written.
    #[must_use]
    pub fn is_older_than(&self, file: &RegularFile) -> bool {
        match (self.source.identity(), file.identity()) {
            (Ok(own), Ok(file)) => file.is_modified_after(&own),
            _ => false,
        }
    }
}

impl<S: Source> CoreDump<S> {
    /// Reads headers and notes; `open` opens the files that the process had mapped.
    ///
    /// # Errors
    ///
    /// When it is no core dump that can be read.
    pub fn read(
        source: S,
        path: &Path,
        open: impl Fn(&Path) -> Result<RegularFile, OpenError> + Send + Sync + 'static,
    ) -> Result<Self, CoreError> {
        let headers = Headers::read(&source, path)?;
        let notes = Notes::read(&source, path, &headers.notes)?;
        let files = notes.files.iter().map(|_| MappedFile::new()).collect();
        let mut dump = Self {
            source,
            headers,
            notes,
            files,
            open: Box::new(open),
            executable: PathBuf::new(),
        };
        let address = dump.notes.executable.unwrap_or(0);
        if let Some(range) = dump.range(address)
            && let Some((path, _)) = dump.notes.files.get(range.file)
        {
            dump.executable = path.clone();
        }
        Ok(dump)
    }

    /// PID, in its own PID namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.notes.pid
    }

    /// The kernel's name of the process.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.notes.name
    }

    /// Its command line; of one that cannot be found in its memory the first 80 bytes, if those are known.
    #[must_use]
    pub fn command_line(&self) -> String {
        let read = |address, into: &mut [u8]| self.read_memory(address, into).is_ok();
        let path = self.notes.executable_path;
        let found = path.and_then(|path| arguments::find(path, &self.notes.auxiliary, read));
        found.map_or_else(|| self.notes.arguments.clone(), |line| line.to_text())
    }

    /// Path of its executable; empty where it is not known.
    #[must_use]
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Its threads, that which has received the signal first.
    #[must_use]
    pub fn threads(&self) -> &[CoreThread] {
        &self.notes.threads
    }

    /// The signal for which the dump was written; [`None`] of one of a process that went on.
    #[must_use]
    pub fn signal(&self) -> Option<Signal> {
        self.notes.signal
    }

    /// The bytes that the file has and those that it should have, where it is truncated.
    #[must_use]
    pub fn truncation(&self) -> Option<(u64, u64)> {
        let bytes = self.source.bytes().ok()?;
        let whole = self.headers.whole_bytes;
        (bytes < whole).then_some((bytes, whole))
    }

    /// Whether threads or files are missing since the notes are truncated.
    #[must_use]
    pub fn has_lost_notes(&self) -> bool {
        self.notes.are_truncated
    }

    /// Whether it says which files the process had mapped.
    #[must_use]
    pub fn has_files(&self) -> bool {
        !self.notes.files.is_empty()
    }

    /// The files that were to be read in place of memory and have changed since.
    pub fn changed_files(&self) -> impl Iterator<Item = &Path> {
        self.files_that(MappedFile::has_changed)
    }

    /// The files that were to be read in place of memory and are not there.
    pub fn missing_files(&self) -> impl Iterator<Item = &Path> {
        self.files_that(MappedFile::is_missing)
    }

    fn files_that(&self, predicate: fn(&MappedFile) -> bool) -> impl Iterator<Item = &Path> {
        let files = self.files.iter().zip(&self.notes.files);
        files
            .filter(move |(file, _)| predicate(file))
            .map(|(_, (path, _))| &**path)
    }

    /// Its memory mappings, by ascending address. The identity of a file is that within the dump.
    #[must_use]
    pub fn mappings(&self) -> Vec<Mapping> {
        let mapping = |start, end, permissions| {
            let range = self.range(start);
            let file = range.and_then(|range| {
                let (path, is_deleted) = self.notes.files.get(range.file)?;
                Some(maps::MappedFile {
                    id: FileId {
                        device: (0, 0),
                        inode: range.file as u64 + 1,
                    },
                    path: path.clone(),
                    is_deleted: *is_deleted,
                })
            });
            Mapping {
                start,
                end,
                permissions,
                file_offset: range.map_or(0, |it| it.offset_of(start)),
                file,
                is_vdso: self.notes.vdso == Some(start),
            }
        };
        let segments = self.headers.segments.iter();
        let mut mappings: Vec<_> = segments
            .map(|segment| mapping(segment.start, segment.end(), segment.permissions))
            .collect();
        // gdb has no segments of what it leaves out, which is not written, and may be code.
        let left_out = self.notes.ranges.iter();
        let left_out = left_out.filter(|range| self.segment(range.start).is_none());
        mappings.extend(left_out.map(|range| mapping(range.start, range.end, LEFT_OUT)));
        mappings.sort_by_key(|mapping| mapping.start);
        mappings
    }

    /// The file of a mapping of [`Self::mappings`].
    ///
    /// # Errors
    ///
    /// When it cannot be opened, or is another one than the process had mapped.
    pub fn mapped_file(&self, mapping: &Mapping) -> Result<&RegularFile, OpenError> {
        let range = self.range(mapping.start).ok_or(OpenError::Anonymous)?;
        self.file(range.file)
    }

    /// Opens the file of a mapping of [`Self::mappings`].
    ///
    /// # Errors
    ///
    /// As for [`Self::mapped_file`].
    pub fn open_mapped(&self, mapping: &Mapping) -> Result<RegularFile, OpenError> {
        let known = self.mapped_file(mapping)?;
        let file = mapping.file.as_ref().ok_or(OpenError::Anonymous)?;
        let opened = (self.open)(&file.path)?;
        match (known.identity(), opened.identity()) {
            (Ok(known), Ok(opened)) if known == opened => {}
            _ => {
                return Err(OpenError::Changed {
                    path: file.path.clone(),
                });
            }
        }
        Ok(opened)
    }

    /// A thread's registers as they were while it was in its system call, in none if it ran; and which of both.
    #[must_use]
    pub fn at_rest(&self, thread: &CoreThread) -> (agent_common::native::Registers, bool) {
        status::at_rest(thread.registers, |address| {
            let mut instruction = [0; 4];
            self.read_memory(address, &mut instruction).ok()?;
            Some(u32::from_le_bytes(instruction))
        })
    }

    /// Fills `into` from `address`.
    ///
    /// # Errors
    ///
    /// When not all of it is in the dump, or in files that may be read in its place.
    pub fn read_memory(&self, mut address: u64, mut into: &mut [u8]) -> Result<(), Absent> {
        while !into.is_empty() {
            let bytes = self.read_some(address, into)?;
            into = into.get_mut(bytes..).ok_or(Absent)?;
            address = address.checked_add(bytes as u64).ok_or(Absent)?;
        }
        Ok(())
    }

    /// Fills the beginning of `into`; returns how much, at least one byte.
    fn read_some(&self, address: u64, into: &mut [u8]) -> Result<usize, Absent> {
        let mut end = u64::MAX;
        if let Some(segment) = self.segment(address) {
            let within = address - segment.start;
            if within < segment.held {
                let into = head(into, segment.held - within);
                let offset = segment.offset.checked_add(within).ok_or(Absent)?;
                self.source.fill(into, offset).map_err(|_| Absent)?;
                return Ok(into.len());
            }
            // What could be written may have been, and what was to be dumped is not as in the file.
            if segment.permissions.write || within < segment.dumped {
                return Err(Absent);
            }
            end = segment.end();
        }
        let segments = &self.headers.segments;
        let next = segments.partition_point(|segment| segment.start <= address);
        end = end.min(segments.get(next).map_or(u64::MAX, |next| next.start));
        let range = self.range(address).ok_or(Absent)?;
        let end = end.min(range.end);
        let into = head(into, end.saturating_sub(address));
        let file = self.file(range.file).map_err(|_| Absent)?;
        let offset = range.offset_of(address);
        file.read_exact_at(into, offset).map_err(|_| Absent)?;
        if into.is_empty() {
            return Err(Absent);
        }
        Ok(into.len())
    }

    /// The segment with an address; of several that overlap the one that starts last.
    fn segment(&self, address: u64) -> Option<&Segment> {
        let segments = &self.headers.segments;
        let after = segments.partition_point(|segment| segment.start <= address);
        let segment = segments.get(after.checked_sub(1)?)?;
        (address - segment.start < segment.bytes).then_some(segment)
    }

    /// The mapped part of a file with an address.
    fn range(&self, address: u64) -> Option<&FileRange> {
        let ranges = &self.notes.ranges;
        let after = ranges.partition_point(|range| range.start <= address);
        let range = ranges.get(after.checked_sub(1)?)?;
        (address < range.end).then_some(range)
    }

    /// The file with this index, if it is the one that the process had mapped.
    fn file(&self, index: usize) -> Result<&RegularFile, OpenError> {
        let known = self.files.get(index).zip(self.notes.files.get(index));
        let (file, (path, is_deleted)) = known.ok_or(OpenError::Anonymous)?;
        file.get(path, *is_deleted, &self.open, || self.start_of(index))
    }

    /// The beginning of a file in memory, as far as the dump itself has it.
    fn start_of(&self, file: usize) -> Vec<u8> {
        let mut ranges = self.notes.ranges.iter();
        let first = ranges.find(|range| range.file == file && range.offset == 0);
        let found = first.and_then(|first| {
            let segment = self.segment(first.start)?;
            let within = first.start - segment.start;
            let bytes = segment.held.checked_sub(within)?.min(START_BYTES as u64);
            let mut start = vec![0; usize::try_from(bytes).ok()?];
            let offset = segment.offset.checked_add(within)?;
            self.source.fill(&mut start, offset).ok()?;
            Some(start)
        });
        found.unwrap_or_default()
    }
}

impl FileRange {
    /// Offset of an address in the file.
    fn offset_of(&self, address: u64) -> u64 {
        self.offset
            .saturating_add(address.saturating_sub(self.start))
    }
}

/// At most so many of the first bytes.
fn head(into: &mut [u8], bytes: u64) -> &mut [u8] {
    let bytes = usize::try_from(bytes).map_or(into.len(), |bytes| bytes.min(into.len()));
    &mut into[..bytes]
}
