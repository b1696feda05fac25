//! The files that the process had mapped, in place of memory that the dump does not have.
//!
//! The kernel leaves out what a file has: code and constants. With it go the first pages of ELF files, in which is the
//! build ID: that, or the page itself, says whether a file still is the same one.

use std::{io, os::unix::ffi::OsStrExt as _, path::Path, sync::OnceLock};

use goblin::elf::{ProgramHeader, header, program_header::PT_NOTE};

use crate::{
    binaries::elf::{CONTEXT, SEGMENT_BYTES, build_id_in},
    process::{OpenError, RegularFile},
};

/// Bytes at the beginning of a file that are compared.
pub(super) const START_BYTES: usize = 4096;

/// A file that the process had mapped.
#[derive(Debug)]
pub(super) struct MappedFile {
    opened: OnceLock<Result<RegularFile, Unusable>>,
}

/// Why a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It cannot be opened; the number of the error.
    Open(Option<i32>),
    /// It was removed before the dump was written.
    Removed,
    /// It is a directory, a device, a pipe or a socket.
    NotRegular,
    /// It is another one than the process had mapped.
    Changed,
    /// It is no ELF file, so that it cannot be said whether it is the same.
    NotElf,
}

impl Unusable {
    /// The same as an error about the file at `path`.
    fn error(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Open(number) => OpenError::Open {
                path,
                source: number
                    .map_or_else(|| io::ErrorKind::Other.into(), io::Error::from_raw_os_error),
            },
            Self::Removed => OpenError::Deleted { path },
            Self::NotRegular => OpenError::NotRegular { path },
            Self::Changed => OpenError::Changed { path },
            Self::NotElf => OpenError::NotElf { path },
        }
    }
}

impl MappedFile {
    pub(super) fn new() -> Self {
        Self {
            opened: OnceLock::new(),
        }
    }

    /// The file at `path`, opened by `open` and compared with its beginning in memory at the first time.
    pub(super) fn get(
        &self,
        path: &Path,
        is_deleted: bool,
        open: impl FnOnce(&Path) -> Result<RegularFile, OpenError>,
        in_memory: impl FnOnce() -> Vec<u8>,
    ) -> Result<&RegularFile, OpenError> {
        let opened = self.opened.get_or_init(|| {
            if is_deleted || path.as_os_str().as_bytes().first() != Some(&b'/') {
                return Err(Unusable::Removed);
            }
            let file = open(path).map_err(|error| match error {
                OpenError::NotRegular { .. } => Unusable::NotRegular,
                OpenError::Open { source, .. } => Unusable::Open(source.raw_os_error()),
                _ => Unusable::Open(None),
            })?;
            let mut start = vec![0; START_BYTES];
            let read = file.read_at(&mut start, 0).unwrap_or(0);
            start.truncate(read);
            let in_memory = in_memory();
            if !start.starts_with(header::ELFMAG) {
                let was_elf = in_memory.starts_with(header::ELFMAG);
                return Err(if was_elf {
                    Unusable::Changed
                } else {
                    Unusable::NotElf
                });
            }
            if is_same(&start, &in_memory) {
                Ok(file)
            } else {
                Err(Unusable::Changed)
            }
        });
        opened.as_ref().map_err(|why| why.error(path))
    }

    /// Whether it was found to be another file than the process had mapped.
    pub(super) fn has_changed(&self) -> bool {
        matches!(self.opened.get(), Some(Err(Unusable::Changed)))
    }

    /// Whether it was wanted and could not be opened.
    pub(super) fn is_missing(&self) -> bool {
        matches!(
            self.opened.get(),
            Some(Err(Unusable::Open(_) | Unusable::Removed))
        )
    }
}

/// Whether a file that begins so is that which begins so in memory; so it is where the dump does not have that.
fn is_same(file: &[u8], in_memory: &[u8]) -> bool {
    let ids = (build_id(file), build_id(in_memory));
    if let (Some(file), Some(in_memory)) = ids {
        return file == in_memory;
    }
    let common = file.len().min(in_memory.len());
    file[..common] == in_memory[..common]
}

/// The build ID of an ELF file that begins so.
fn build_id(start: &[u8]) -> Option<String> {
    let header = goblin::elf::Elf::parse_header(start).ok()?;
    let table = usize::try_from(header.e_phoff).ok()?;
    // Those that are there.
    let room = start.len().checked_sub(table)? / SEGMENT_BYTES;
    let count = usize::from(header.e_phnum).min(room);
    let headers = ProgramHeader::parse(start, table, count, CONTEXT).ok()?;
    let notes = headers.iter().filter(|header| header.p_type == PT_NOTE);
    notes
        .filter_map(|note| {
            let offset = usize::try_from(note.p_offset).ok()?;
            let bytes = usize::try_from(note.p_filesz).ok()?;
            start.get(offset..offset.checked_add(bytes)?)
        })
        .find_map(build_id_in)
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    #[test]
    fn a_file_is_the_same_by_its_build_id_else_by_its_beginning() {
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        let start = &own[..START_BYTES];
        assert!(is_same(start, start));
        assert!(is_same(start, &[]));
        let mut other = start.to_vec();
        // `e_shoff`, which `strip` changes.
        other[40] ^= 1;
        assert_eq!(is_same(start, &other), build_id(start).is_some());
        assert!(!is_same(b"\x7fELF\x02\x01", b"\x7fELF\x02\x02"));
    }

    #[test]
    fn no_beginning_makes_it_panic() {
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        for length in (0..START_BYTES).step_by(7) {
            let _ = build_id(&own[..length]);
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let mut start = own[..START_BYTES].to_vec();
            for _ in 0..8 {
                let at = random.usize(16..512);
                start[at] = random.u8(..);
            }
            let _ = build_id(&start);
        }
    }
}
