//! The lines of a unit.

use std::{num::NonZeroU64, ops::Range};

use gimli::{DebugLineOffset, Dwarf, LineProgramHeader, Reader, Section as _};

use super::{Error, Work, bytes::Bytes, unit::Unit};

/// Most bytes of the names of a unit's files.
const MAX_FILES: usize = 1 << 20;

/// Most bytes of a path.
const MAX_PATH: usize = 4 << 10;

/// The lines of a unit.
pub(super) struct Lines {
    header: LineProgramHeader<Bytes>,
    /// By address, without overlaps.
    sequences: Vec<Sequence>,
    /// Those of all sequences, by address in each.
    rows: Vec<Row>,
}

/// Addresses without a gap.
struct Sequence {
    begin: u64,
    end: u64,
    rows: Range<usize>,
}

/// Where a line begins.
#[derive(Clone, Copy)]
struct Row {
    address: u64,
    file: u32,
    line: u32,
}

impl Lines {
    /// Reads those of a unit; only what is in `code` counts.
    pub(super) fn read(
        dwarf: &Dwarf<Bytes>,
        unit: &Unit,
        offset: DebugLineOffset,
        code: &Range<u64>,
        work: &mut Work,
    ) -> Result<Self, Error> {
        check_files(dwarf, offset)?;
        let size = unit.inner.header.address_size();
        let program = dwarf.debug_line.program(offset, size, None, None)?;
        let mut lines = Self {
            header: program.header().clone(),
            sequences: Vec::new(),
            rows: Vec::new(),
        };
        let mut program = program.rows();
        let mut first = 0;
        // What is malformed at the end does not make what was before it wrong.
        while let Ok(Some((_, row))) = program.next_row() {
            work.spend(1)?;
            if row.end_sequence() {
                lines.end_sequence(first, row.address(), code);
                first = lines.rows.len();
                continue;
            }
            let row = Row {
                address: row.address(),
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: row
                    .line()
                    .map_or(0, NonZeroU64::get)
                    .try_into()
                    .unwrap_or(0),
            };
            // Of what is said of the same address the last holds.
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

    /// Ends the sequence whose rows are those from `first` on.
    fn end_sequence(&mut self, first: usize, end: u64, code: &Range<u64>) {
        let rows = &self.rows[first..];
        let begin = rows.first().map_or(end, |row| row.address);
        if begin < end && code.contains(&begin) && rows.is_sorted_by_key(|row| row.address) {
            let rows = first..self.rows.len();
            self.sequences.push(Sequence { begin, end, rows });
        } else {
            self.rows.truncate(first);
        }
    }

    /// The index of the file and the line of `address`; the line is 0 where the compiler knows
    /// none.
    pub(super) fn find(&self, address: u64) -> Option<(u64, u32)> {
        let after = self.sequences.partition_point(|it| it.begin <= address);
        let sequence = self.sequences[..after].last()?;
        if address >= sequence.end {
            return None;
        }
        let rows = &self.rows[sequence.rows.clone()];
        let after = rows.partition_point(|row| row.address <= address);
        let row = rows[..after].last()?;
        Some((row.file.into(), row.line))
    }

    /// The path of a file.
    pub(super) fn path(&self, dwarf: &Dwarf<Bytes>, unit: &Unit, file: u64) -> Option<Vec<u8>> {
        let unit = &unit.inner;
        let file = self.header.file(file)?;
        let text = |value| {
            let text: Bytes = dwarf.attr_string(unit, value).ok()?;
            text.take(MAX_PATH).ok()
        };
        let mut path = text(file.path_name())?;
        // Index 0 is the directory of the compiler.
        if file.directory_index() != 0
            && let Some(directory) = file.directory(&self.header).and_then(text)
        {
            path = below(directory, path);
        }
        if let Some(directory) = &unit.comp_dir
            && let Ok(directory) = directory.take(MAX_PATH)
        {
            path = below(directory, path);
        }
        Some(path)
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.sequences.capacity() * size_of::<Sequence>()
    }
}

/// A path that may be relative to a directory.
fn below(mut directory: Vec<u8>, path: Vec<u8>) -> Vec<u8> {
    if path.starts_with(b"/") || directory.is_empty() {
        return path;
    }
    if !directory.ends_with(b"/") {
        directory.push(b'/');
    }
    directory.extend(path);
    directory
}

/// Refuses tables of files that would take much memory.
fn check_files(dwarf: &Dwarf<Bytes>, offset: DebugLineOffset) -> Result<(), Error> {
    let mut program = dwarf.debug_line.reader().clone();
    program.skip(offset.0)?;
    let (_, format) = program.read_initial_length()?;
    if program.read_u16()? >= 5 {
        // Sizes of addresses and of what selects a segment.
        program.skip(2)?;
    }
    if program.read_length(format)? > MAX_FILES {
        return Err(Error::TooLarge);
    }
    Ok(())
}
