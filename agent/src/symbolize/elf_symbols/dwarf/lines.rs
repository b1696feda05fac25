//! The line table of a unit.

use std::{num::NonZeroU64, ops::Range};

use gimli::{DebugLineOffset, Dwarf, LineProgramHeader, Reader, Section as _};

use super::{
    budget::WorkBudget, error::DwarfError, section_reader::SectionReader, unit::DwarfUnit,
};

/// Most bytes of the names of a unit's files.
const MAX_FILES: usize = 1 << 20;

/// Most rows of a unit, 12 MiB: the sequences from there on have no lines.
const MAX_ROWS: usize = 1 << 20;

/// Most bytes of a path.
const MAX_PATH: usize = 4 << 10;

/// The line table of a unit.
#[derive(Debug)]
pub(super) struct UnitLines {
    files: SourceFiles,
    /// By address, not overlapping.
    sequences: Vec<Sequence>,
    /// The rows of all sequences, by address in each.
    rows: Vec<Row>,
}

/// Contiguous addresses.
#[derive(Debug)]
struct Sequence {
    begin: u64,
    end: u64,
    rows: Range<usize>,
}

/// The first address of a line.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Relative to the start of its sequence.
    address: u32,
    file: u32,
    line: u32,
}

impl UnitLines {
    /// Reads the sequences of a unit that are in `code`.
    pub(super) fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        offset: DebugLineOffset,
        code: &Range<u64>,
        work: &mut WorkBudget,
    ) -> Result<Self, DwarfError> {
        check_files(dwarf, offset)?;
        let size = unit.inner.header.address_size();
        let program = dwarf.debug_line.program(offset, size, None, None)?;
        let mut lines = Self {
            files: SourceFiles::read(dwarf, unit, program.header()),
            sequences: Vec::new(),
            rows: Vec::new(),
        };
        let mut program = program.rows();
        // Index of the sequence's first row, and its first address.
        let mut first = 0;
        let mut begin = 0;
        // A malformed end does not invalidate the rows before it.
        while lines.rows.len() < MAX_ROWS
            && let Ok(Some((_, row))) = program.next_row()
        {
            work.spend(1)?;
            if row.end_sequence() {
                lines.end_sequence(first, begin..row.address(), code);
                first = lines.rows.len();
                continue;
            }
            if lines.rows.len() == first {
                begin = row.address();
            }
            // gimli skips rows whose address decreases.
            let into = row.address().checked_sub(begin);
            let Some(address) = into.and_then(|into| u32::try_from(into).ok()) else {
                continue;
            };
            let row = Row {
                address,
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: row
                    .line()
                    .map_or(0, NonZeroU64::get)
                    .try_into()
                    .unwrap_or(0),
            };
            // Of several rows at an address the last one holds.
            match lines.rows.get_mut(first..).and_then(<[Row]>::last_mut) {
                Some(last) if last.address == row.address => *last = row,
                _ => lines.rows.push(row),
            }
        }
        lines.rows.truncate(first);
        lines.rows.shrink_to_fit();
        lines
            .sequences
            .sort_unstable_by_key(|it| (it.begin, it.end));
        Ok(lines)
    }

    /// Ends the sequence whose rows start at `first`.
    fn end_sequence(&mut self, first: usize, addresses: Range<u64>, code: &Range<u64>) {
        let rows = self.rows.get(first..).unwrap_or_default();
        let is_valid = !rows.is_empty() && rows.is_sorted_by_key(|row| row.address);
        if is_valid && !addresses.is_empty() && code.contains(&addresses.start) {
            self.sequences.push(Sequence {
                begin: addresses.start,
                end: addresses.end,
                rows: first..self.rows.len(),
            });
        } else {
            self.rows.truncate(first);
        }
    }

    /// The index of the file and the line of `address`; the line is 0 where the compiler recorded
    /// none.
    pub(super) fn find(&self, address: u64) -> Option<(u64, u32)> {
        let after = self.sequences.partition_point(|it| it.begin <= address);
        let sequence = self.sequences[..after].last()?;
        if address >= sequence.end {
            return None;
        }
        let rows = &self.rows[sequence.rows.clone()];
        let after = rows.partition_point(|row| u64::from(row.address) <= address - sequence.begin);
        let row = rows[..after].last()?;
        Some((row.file.into(), row.line))
    }

    /// The path of a file.
    pub(super) fn path(&self, file: u64) -> Option<Vec<u8>> {
        self.files.path(file)
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
            + self.sequences.capacity() * size_of::<Sequence>()
            + self.files.bytes
    }
}

/// The source files of a line table.
#[derive(Debug)]
struct SourceFiles {
    /// Working directory of the compiler.
    directory: Vec<u8>,
    directories: Vec<Vec<u8>>,
    /// Index of the directory, and name; directory 0 is the compiler's.
    files: Vec<(usize, Vec<u8>)>,
    bytes: usize,
}

impl SourceFiles {
    fn read(
        dwarf: &Dwarf<SectionReader>,
        unit: &DwarfUnit,
        header: &LineProgramHeader<SectionReader>,
    ) -> Self {
        let mut left = MAX_FILES;
        let mut text = |value| {
            let text: Option<SectionReader> = dwarf.attr_string(&unit.inner, value).ok();
            let text = text.and_then(|text| text.take(MAX_PATH.min(left)).ok());
            let text = text.unwrap_or_default();
            left -= text.len();
            text
        };
        // The first index is 0 or 1, depending on the version of DWARF.
        let directories = 0..=header.include_directories().len() as u64;
        let directories = directories
            .map(|index| header.directory(index).map_or_else(Vec::new, &mut text))
            .collect();
        let files = 0..=header.file_names().len() as u64;
        let files = files.map(|index| {
            header.file(index).map_or((0, Vec::new()), |file| {
                let directory = usize::try_from(file.directory_index()).unwrap_or(usize::MAX);
                (directory, text(file.path_name()))
            })
        });
        let files: Vec<_> = files.collect();
        let count = header.include_directories().len() + files.len();
        let directory = unit.inner.comp_dir.as_ref();
        Self {
            directory: directory
                .and_then(|text| text.take(MAX_PATH).ok())
                .unwrap_or_default(),
            directories,
            files,
            bytes: count * size_of::<(usize, Vec<u8>)>() + MAX_FILES - left,
        }
    }

    fn path(&self, file: u64) -> Option<Vec<u8>> {
        let (directory, name) = self.files.get(usize::try_from(file).ok()?)?;
        if name.is_empty() {
            return None;
        }
        let mut path = name.clone();
        if *directory != 0
            && let Some(directory) = self.directories.get(*directory)
        {
            path = join(directory, path);
        }
        Some(join(&self.directory, path))
    }
}

/// Joins a path to a directory if it is relative.
fn join(directory: &[u8], path: Vec<u8>) -> Vec<u8> {
    if path.starts_with(b"/") || directory.is_empty() {
        return path;
    }
    let separator: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, separator, &path].concat()
}

/// Rejects file tables that would take too much memory.
fn check_files(dwarf: &Dwarf<SectionReader>, offset: DebugLineOffset) -> Result<(), DwarfError> {
    let mut program = dwarf.debug_line.reader().clone();
    program.skip(offset.0)?;
    let (_, format) = program.read_initial_length()?;
    if program.read_u16()? >= 5 {
        // Sizes of addresses and of segment selectors.
        program.skip(2)?;
    }
    if program.read_length(format)? > MAX_FILES {
        return Err(DwarfError::TooLarge);
    }
    Ok(())
}
