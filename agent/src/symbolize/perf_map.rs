//! Symbolizes JIT code with perf maps.
//!
//! Node.js, Java agents, .NET, Python itself (`-X perf`) and others write lines `START SIZE NAME` to
//! `/tmp/perf-PID.map`, in the mount namespace of the process and with its id in its own PID
//! namespace. See `tools/perf/Documentation/jit-interface.txt` of Linux.
//!
//! Invariants: any user may create the file, so it is read only if root or the user of the process
//! owns it; process ids are used again, so it is read only if it was written since the process
//! started; at most [`MAX_BYTES`] bytes and [`MAX_FUNCTIONS`] functions of it are read, and it is read
//! again only when it has changed. Where lines overlap, the last one holds. The file stays open, since its path leads
//! nowhere once the process has ended.

use std::{
    collections::BinaryHeap,
    io::{self, BufRead as _, BufReader, Read, Take},
    path::{Path, PathBuf},
};

use memchr::memchr;

use super::demangle;
use crate::process::{FileIdentity, Process, RegularFile};

/// Most bytes of a map that are read.
pub const MAX_BYTES: u64 = 64 << 20;

/// Most functions that are kept.
pub const MAX_FUNCTIONS: usize = 1_000_000;

/// Most bytes of a line; longer lines are truncated.
const MAX_LINE: usize = 4 << 10;

/// Why an address is not in a perf map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PerfMapMiss {
    /// There is no map, or it belongs to another user.
    NoMap,
    /// The map has no entry for the address.
    NotInMap,
    /// The map exceeds the limits, and what was read of it has no entry for the address.
    TooLarge,
}

/// The JIT-compiled functions of a process.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// As it was opened last.
    file: Option<RegularFile>,
    state: Option<FileIdentity>,
    /// Bytes of complete lines that were read.
    done: u64,
    /// The last line that was read: if it is still there, lines were only appended.
    last_line: Vec<u8>,
    /// By address, not overlapping.
    functions: Vec<Span>,
    names: Vec<u8>,
    is_too_large: bool,
}

/// Address range of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    start: u64,
    /// First address after it.
    end: u64,
    /// Offset in `names`, and length.
    name: (u32, u16),
}

impl PerfMap {
    /// Path of the map in the mount namespace of the process.
    #[must_use]
    pub fn path(process: &Process) -> PathBuf {
        let pid = process.namespace_pids().last().copied();
        format!("/tmp/perf-{}.map", pid.unwrap_or(process.pid())).into()
    }

    /// Reads what was appended to the map of `process`, which must be the same process in every call;
    /// returns whether the map has changed.
    pub fn refresh(&mut self, process: &Process) -> bool {
        let path = Self::path(process);
        self.read(open(process, &path))
    }

    /// The same of a process that has ended, whose file was opened before.
    pub fn refresh_ended(&mut self) -> bool {
        self.read(None)
    }

    /// Whether a file is open.
    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes the file. What was read of it stays.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Reads the file that was opened now, or else the one that is open.
    fn read(&mut self, opened: Option<RegularFile>) -> bool {
        let Some(file) = opened.or_else(|| self.file.take()) else {
            return false;
        };
        let has_changed = self.update(&file).unwrap_or(false);
        self.file = Some(file);
        has_changed
    }

    /// The function at `address`, as of the last refresh.
    ///
    /// # Errors
    ///
    /// When the map has no entry for it.
    pub fn find(&self, address: u64) -> Result<String, PerfMapMiss> {
        match self.span(address) {
            Some(span) => Ok(demangle::demangle(self.name(span.name))),
            None if self.state.is_none() => Err(PerfMapMiss::NoMap),
            None if self.is_too_large => Err(PerfMapMiss::TooLarge),
            None => Err(PerfMapMiss::NotInMap),
        }
    }

    fn span(&self, address: u64) -> Option<&Span> {
        let after = self.functions.partition_point(|span| span.start <= address);
        let span = self.functions[..after].last()?;
        (address < span.end).then_some(span)
    }

    fn name(&self, (start, bytes): (u32, u16)) -> &[u8] {
        self.names
            .get(start as usize..)
            .and_then(|names| names.get(..bytes.into()))
            .unwrap_or_default()
    }

    /// Reads a map, or what was appended to it; returns whether it has changed.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn update(&mut self, file: &RegularFile) -> io::Result<bool> {
        let state = file.identity()?;
        if self.state == Some(state) {
            return Ok(false);
        }
        if !self.is_continued(file, &state) {
            *self = Self::default();
        }
        self.state = Some(state);
        let mut lines = CompleteLines::new(file.reader(self.done), self.done);
        let mut fresh = Vec::new();
        while let Some(line) = lines.next()? {
            if self.functions.len() + fresh.len() >= MAX_FUNCTIONS {
                self.is_too_large = true;
                break;
            }
            fresh.extend(self.parse(line));
            self.last_line.clear();
            self.last_line.extend_from_slice(line);
        }
        self.is_too_large |= lines.has_reached_limit;
        self.done = lines.done;
        self.merge(&fresh);
        Ok(true)
    }

    /// Whether the file is the one that was read before, with lines appended.
    fn is_continued(&self, file: &RegularFile, state: &FileIdentity) -> bool {
        let is_same = self.state.is_some_and(|before| before.is_same_file(state));
        let mut line = vec![0; self.last_line.len()];
        let start = self.done.checked_sub(line.len() as u64 + 1);
        is_same
            && start.is_some_and(|start| file.read_exact_at(&mut line, start).is_ok())
            && line == self.last_line
    }

    /// Reads a line `START SIZE NAME`.
    fn parse(&mut self, line: &[u8]) -> Option<Span> {
        let mut fields = line.trim_ascii().splitn(3, |&byte| byte == b' ');
        let start = hexadecimal(fields.next()?)?;
        let end = start.checked_add(hexadecimal(fields.next()?)?)?;
        let symbol = fields.next()?.trim_ascii();
        if start == end || symbol.is_empty() {
            return None;
        }
        let name = u32::try_from(self.names.len()).ok()?;
        let bytes = u16::try_from(symbol.len()).ok()?;
        self.names.extend_from_slice(symbol);
        Some(Span {
            start,
            end,
            name: (name, bytes),
        })
    }

    /// Adds functions; where they overlap, the last one holds.
    fn merge(&mut self, fresh: &[Span]) {
        if fresh.is_empty() {
            return;
        }
        let mut spans: Vec<(Span, usize)> = self
            .functions
            .drain(..)
            .map(|span| (span, 0))
            .chain(fresh.iter().copied().zip(1..))
            .collect();
        spans.sort_unstable_by_key(|(span, order)| (span.start, *order));
        self.functions = without_overlaps(&spans);
    }
}

/// Spans sorted by start, with their priority → spans that do not overlap.
fn without_overlaps(spans: &[(Span, usize)]) -> Vec<Span> {
    let mut result: Vec<Span> = Vec::with_capacity(spans.len());
    // Spans that have begun, the highest priority first.
    let mut open: BinaryHeap<(usize, usize)> = BinaryHeap::new();
    let mut at = 0;
    let mut next = 0;
    loop {
        while let Some(&(_, index)) = open.peek()
            && spans[index].0.end <= at
        {
            open.pop();
        }
        if open.is_empty() {
            let Some((span, _)) = spans.get(next) else {
                break;
            };
            at = span.start;
        }
        while let Some((span, order)) = spans.get(next)
            && span.start <= at
        {
            open.push((*order, next));
            next += 1;
        }
        let Some(&(_, index)) = open.peek() else {
            continue;
        };
        let span = spans[index].0;
        let end = match spans.get(next) {
            Some((following, _)) => span.end.min(following.start),
            None => span.end,
        };
        match result.last_mut() {
            Some(last) if last.end == at && last.name == span.name => last.end = end,
            _ => result.push(Span {
                start: at,
                end,
                name: span.name,
            }),
        }
        at = end;
    }
    result
}

/// Opens the map if root or the user of the process owns it, and it is not an earlier process's.
fn open(process: &Process, path: &Path) -> Option<RegularFile> {
    let file = process.open_in_root(path).ok()?;
    let owner = file.owner().ok()?;
    let is_own = owner == 0 || Some(owner) == process.user().map(u64::from);
    let is_present = match process.started() {
        Ok(started) => file.identity().ok()?.is_modified_since(started),
        // The process has ended; its map still holds.
        Err(_) => true,
    };
    (is_own && is_present).then_some(file)
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Complete lines of a file.
struct CompleteLines<R> {
    reader: BufReader<Take<R>>,
    /// Offset of the first line that was not returned yet.
    done: u64,
    /// The last line that was returned, truncated to [`MAX_LINE`] bytes.
    line: Vec<u8>,
    has_reached_limit: bool,
}

impl<R: Read> CompleteLines<R> {
    /// The lines of a reader whose first byte is at offset `start` of its file.
    fn new(reader: R, start: u64) -> Self {
        let rest = reader.take(MAX_BYTES.saturating_sub(start));
        Self {
            reader: BufReader::with_capacity(64 << 10, rest),
            done: start,
            line: Vec::new(),
            has_reached_limit: false,
        }
    }

    /// The next line without its newline; a line without one is not returned, it may still grow.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut bytes = 0;
        loop {
            let piece = self.reader.fill_buf()?;
            if piece.is_empty() {
                self.has_reached_limit = self.reader.get_ref().limit() == 0;
                return Ok(None);
            }
            let end = memchr(b'\n', piece);
            let text = &piece[..end.unwrap_or(piece.len())];
            let room = MAX_LINE - self.line.len();
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            let consumed = text.len() + usize::from(end.is_some());
            self.reader.consume(consumed);
            bytes += consumed as u64;
            if end.is_some() {
                self.done += bytes;
                return Ok(Some(&self.line));
            }
        }
    }
}

#[cfg(test)]
mod tests;
