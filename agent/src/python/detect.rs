//! Detects the CPython interpreter of a process.

mod search;

#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::search::{ExecutableFile, Rank, Search, mapped_files};
use super::{
    error::Error,
    file_cache::{FileCache, InspectedFile},
    inspect::SymbolScope,
    interpreter::Interpreter,
    layouts::LayoutSources,
    program::Program,
};
use crate::{
    process::{self, OpenError, maps::Mapping},
    profile,
};

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
        let mut found = self.search(process, &mappings);
        // It runs, but its C library is not there: that is linked statically, or the mappings were read before the
        // dynamic linker was done, and the state of the interpreter after that.
        if matches!(&found, Ok(it) if it.is_initialised == Some(true) && !it.has_c_library()) {
            let now = process.mappings()?;
            if now != mappings {
                found = self.search(process, &now);
            }
        }
        // After an `exec` the result could mix two programs.
        if !process.is_same_program() {
            let pid = process.pid();
            return Err(process::Error::Replaced { pid }.into());
        }
        found
    }

    /// Searches the files of these mappings.
    fn search(&self, process: &dyn Program, mappings: &[Mapping]) -> Result<Interpreter, Error> {
        let mut search = Search::new(process, mappings);
        let mut files = mapped_files(process.executable(), mappings);
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
        search.finish(files.len(), images)
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

#[cfg(test)]
mod tests;
