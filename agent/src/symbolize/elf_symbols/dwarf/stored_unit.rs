//! Functions and lines of a unit in a temporary file, as they are in memory.

use std::io::Write as _;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{
    functions::{Scope, UnitFunctions},
    lines::{SourceFiles, UnitLines},
    spool::Spool,
};
use crate::binaries::elf::Source as _;

/// Functions, sequences, rows, directories, files, bytes of names.
const ARRAYS: usize = 6;

/// Where a unit is in the file.
#[derive(Debug)]
pub(super) struct StoredUnit {
    offset: u64,
    /// Lengths of its arrays, in the order in which they are.
    lengths: [usize; ARRAYS],
    scope: Scope,
}

impl StoredUnit {
    /// Writes a unit; [`None`] where there is no room for it.
    pub(super) fn write(
        spool: &Spool,
        functions: &UnitFunctions,
        lines: &UnitLines,
    ) -> Option<Self> {
        let UnitFunctions { scope, functions } = functions;
        let UnitLines {
            files,
            sequences,
            rows,
        } = lines;
        let SourceFiles {
            directories,
            files,
            text,
        } = files;
        let arrays = [
            (functions.as_bytes(), functions.len()),
            (sequences.as_bytes(), sequences.len()),
            (rows.as_bytes(), rows.len()),
            (directories.as_bytes(), directories.len()),
            (files.as_bytes(), files.len()),
            (text.as_bytes(), text.len()),
        ];
        let bytes = arrays.iter().map(|(bytes, _)| bytes.len() as u64);
        let offset = spool.reserve(bytes.sum())?;
        let mut writer = spool.writer(offset);
        for (bytes, _) in arrays {
            writer.write_all(bytes).ok()?;
        }
        Some(Self {
            offset,
            lengths: arrays.map(|(_, length)| length),
            scope: *scope,
        })
    }

    /// Reads the unit; [`None`] where that fails.
    pub(super) fn read(&self, spool: &Spool) -> Option<(UnitFunctions, UnitLines)> {
        let [functions, sequences, rows, directories, files, text] = self.lengths;
        let mut reader = Reader {
            spool,
            offset: self.offset,
        };
        let functions = UnitFunctions {
            scope: self.scope,
            functions: reader.array(functions)?,
        };
        let lines = UnitLines {
            sequences: reader.array(sequences)?,
            rows: reader.array(rows)?,
            files: SourceFiles {
                directories: reader.array(directories)?,
                files: reader.array(files)?,
                text: reader.array(text)?,
            },
        };
        Some((functions, lines))
    }
}

/// Reads one array after the other.
struct Reader<'a> {
    spool: &'a Spool,
    offset: u64,
}

impl Reader<'_> {
    fn array<T: Clone + FromBytes + IntoBytes + Immutable>(
        &mut self,
        length: usize,
    ) -> Option<Vec<T>> {
        let mut array = vec![T::new_zeroed(); length];
        let bytes = array.as_mut_slice().as_mut_bytes();
        self.spool.fill(bytes, self.offset).ok()?;
        self.offset += bytes.len() as u64;
        Some(array)
    }
}
