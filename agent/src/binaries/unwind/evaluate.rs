//! Evaluation of call-frame instructions: from FDEs to rows.

use std::{collections::HashMap, ops::Range};

use agent_common::unwind::Rule;
use gimli::{
    BaseAddresses, CommonInformationEntry, DebugFrame, EhFrame, FrameDescriptionEntry,
    LittleEndian, UnwindContext, UnwindOffset, UnwindSection, UnwindTable,
};

use super::{
    arch::Arch,
    code_ranges::CodeRanges,
    entries::{self, Entries, FrameFormat},
    expression::Bytes,
    reason::{UnknownCounts, UnknownReason},
    rows::{Row, Rows},
    rule::Translator,
    rules::Rules,
    sections::EhFrameSection,
    storage::Storage,
};

/// Bytes of an address in a file of 64 bits.
const ADDRESS_BYTES: u8 = 8;

/// Most functions of a section; the largest known files have 400,000. A function takes eight
/// bytes of memory.
const MAX_FUNCTIONS: usize = 4 << 20;

/// Most rows of a file, before adjacent rows with the same rule are merged; the largest known files
/// have 3 million. A row takes eight bytes.
const MAX_ROWS: usize = 8 << 20;

/// Most bytes of a CIE; real ones have thirty.
const MAX_CIE_BYTES: u64 = 1 << 10;

/// Most bytes of entries that are evaluated, a CIE's once for each FDE that refers to it; the
/// largest known files have 26 MB.
const MAX_EVALUATED: u64 = 128 << 20;

/// Most parsed CIEs that are cached.
const MAX_CACHED: usize = 1 << 10;

/// What remains of the limits of a file.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes of entries that may still be evaluated.
    bytes: u64,
    /// Rows that may still be added.
    rows: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: MAX_EVALUATED,
            rows: MAX_ROWS,
        }
    }
}

impl Budget {
    /// Takes one row from the budget; [`false`] where it is exhausted.
    pub(super) fn take_row(&mut self) -> bool {
        let is_left = self.rows > 0;
        self.rows -= usize::from(is_left);
        is_left
    }

    /// Whether no row may be added any more.
    pub(super) fn is_exhausted(&self) -> bool {
        self.rows == 0
    }
}

type Cie<'a> = CommonInformationEntry<Bytes<'a>>;
/// CIEs by offset; [`None`] where malformed.
type Cies<'a> = HashMap<usize, Option<Cie<'a>>>;
type Fde<'a> = FrameDescriptionEntry<Bytes<'a>>;

/// The evaluation of a section of call-frame information.
pub(super) struct Evaluation<'a, S> {
    section: S,
    bytes: &'a [u8],
    format: FrameFormat,
    bases: BaseAddresses,
    arch: &'a Arch,
    code: &'a CodeRanges,
}

impl<'a> Evaluation<'a, EhFrame<Bytes<'a>>> {
    /// The evaluation of `.eh_frame`.
    pub(super) fn eh_frame(
        loaded: &'a EhFrameSection,
        arch: &'a Arch,
        code: &'a CodeRanges,
    ) -> Self {
        let mut section = EhFrame::new(&loaded.bytes, LittleEndian);
        section.set_address_size(ADDRESS_BYTES);
        section.set_vendor(arch.vendor);
        Self {
            section,
            bytes: &loaded.bytes,
            format: FrameFormat::EhFrame,
            bases: BaseAddresses::default().set_eh_frame(loaded.address),
            arch,
            code,
        }
    }
}

impl<'a> Evaluation<'a, DebugFrame<Bytes<'a>>> {
    /// The evaluation of `.debug_frame`.
    pub(super) fn debug_frame(bytes: &'a [u8], arch: &'a Arch, code: &'a CodeRanges) -> Self {
        let mut section = DebugFrame::new(bytes, LittleEndian);
        section.set_address_size(ADDRESS_BYTES);
        section.set_vendor(arch.vendor);
        Self {
            section,
            bytes,
            format: FrameFormat::DebugFrame,
            bases: BaseAddresses::default(),
            arch,
            code,
        }
    }
}

impl<'a, S: UnwindSection<Bytes<'a>>> Evaluation<'a, S>
where
    S::Offset: UnwindOffset<usize>,
{
    /// The rows of all functions.
    ///
    /// Where functions overlap, the one with the higher start applies from its start on, as in
    /// unwinders that search by start; of functions with the same start the first in the section.
    pub(super) fn rows(
        &self,
        budget: &mut Budget,
        rules: &mut Rules,
        unknown: &mut UnknownCounts,
    ) -> Vec<Row> {
        let mut output = Output::new(budget, rules, unknown);
        let mut context = Box::new(UnwindContext::new_in());
        let mut cies = Cies::new();
        let starts = self.starts(&mut cies, output.unknown);
        self.each(&starts, &mut cies, |function, range| {
            self.evaluate(function, range, &mut context, &mut output);
        });
        output.finish()
    }

    /// The extents of all functions; overlaps are resolved as in [`Self::rows`].
    pub(super) fn extents(&self) -> Vec<Range<u32>> {
        let mut cies = Cies::new();
        let starts = self.starts(&mut cies, &mut UnknownCounts::default());
        let mut extents = Vec::with_capacity(starts.len());
        self.each(&starts, &mut cies, |_, range| extents.push(range));
        extents
    }

    /// Calls `look` with every function and the distances to which it applies.
    fn each(
        &self,
        starts: &[u64],
        cies: &mut Cies<'a>,
        mut look: impl FnMut(&Fde<'a>, Range<u32>),
    ) {
        let mut starts = starts.iter().copied().map(parts).peekable();
        while let Some((start, offset)) = starts.next() {
            while starts.next_if(|(next, _)| *next == start).is_some() {}
            let limit = starts.peek().map_or(u32::MAX, |(next, _)| *next);
            let Some(function) = self.function(cies, offset) else {
                continue;
            };
            let range = self
                .code
                .distances(function.initial_address(), function.len());
            if let Some(range) = range {
                look(&function, range.start..range.end.min(limit));
            }
        }
    }

    /// The start of each function (upper half) and the offset of its FDE (lower half), sorted.
    fn starts(&self, cies: &mut Cies<'a>, unknown: &mut UnknownCounts) -> Vec<u64> {
        let mut starts = Vec::new();
        for offset in Entries::new(self.bytes, self.format) {
            let Some(function) = self.function(cies, offset) else {
                unknown.count(UnknownReason::Malformed);
                continue;
            };
            if function.len() == 0 {
                continue;
            }
            match self
                .code
                .distances(function.initial_address(), function.len())
            {
                None => unknown.count(UnknownReason::NoCode),
                Some(_) if starts.len() == MAX_FUNCTIONS => unknown.count(UnknownReason::TooMany),
                // A section has fewer bytes than 32 bits can count.
                Some(range) => starts.push(u64::from(range.start) << 32 | offset as u64),
            }
        }
        starts.sort_unstable();
        starts
    }

    /// The FDE at `offset`; [`None`] where it is malformed.
    fn function(&self, cies: &mut Cies<'a>, offset: usize) -> Option<Fde<'a>> {
        let partial = self
            .section
            .partial_fde_from_offset(&self.bases, offset.into())
            .ok()?;
        let common = self.common(cies, UnwindOffset::into(partial.cie_offset()))?;
        partial.parse(|_, _, _| Ok(common.clone())).ok()
    }

    /// The CIE at `offset`; [`None`] where it is malformed.
    fn common(&self, cies: &mut Cies<'a>, offset: usize) -> Option<Cie<'a>> {
        if cies.len() >= MAX_CACHED {
            cies.clear();
        }
        let read = || {
            entries::length(self.bytes, offset).filter(|bytes| *bytes <= MAX_CIE_BYTES)?;
            let common = self.section.cie_from_offset(&self.bases, offset.into());
            common.ok()
        };
        cies.entry(offset).or_insert_with(read).clone()
    }

    /// Adds the rows of a function.
    fn evaluate(
        &self,
        function: &Fde<'a>,
        range: Range<u32>,
        context: &mut UnwindContext<usize, Storage>,
        output: &mut Output<'_>,
    ) {
        let translator = Translator {
            arch: self.arch,
            section: &self.section,
        };
        let bytes = (function.entry_len() + function.cie().entry_len()) as u64;
        if output.budget.bytes < bytes || output.budget.is_exhausted() {
            output.unknown.count(UnknownReason::TooMany);
            return;
        }
        output.budget.bytes -= bytes;
        let Range { start, end } = range;
        let mut position = start;
        let mut reason = UnknownReason::Malformed;
        if let Ok(mut table) = UnwindTable::new(&self.section, &self.bases, context, function) {
            while position < end {
                if !output.budget.take_row() {
                    reason = UnknownReason::TooMany;
                    break;
                }
                let Ok(Some(row)) = table.next_row() else {
                    break;
                };
                let row_end = self.code.distance(row.end_address());
                let row_end = row_end.map_or(end, |row_end| row_end.min(end));
                if row_end > position {
                    let rule = translator.rule(function.cie(), row, output.unknown);
                    output.add(position..row_end, rule);
                    position = row_end;
                }
            }
        }
        if position < end {
            output.add(position..end, Err(reason));
        }
    }
}

/// The start of a function as a distance, and the offset of its FDE.
fn parts(key: u64) -> (u32, usize) {
    ((key >> 32) as u32, (key & 0xffff_ffff) as usize)
}

/// The rows that are added so far.
pub(super) struct Output<'a> {
    rows: Rows,
    rules: &'a mut Rules,
    pub(super) unknown: &'a mut UnknownCounts,
    /// The last rule and its index: the next rule is often the same.
    last: (Rule, u32),
    pub(super) budget: &'a mut Budget,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        budget: &'a mut Budget,
        rules: &'a mut Rules,
        unknown: &'a mut UnknownCounts,
    ) -> Self {
        Self {
            rows: Rows::default(),
            rules,
            unknown,
            last: (Rule::UNKNOWN, 0),
            budget,
        }
    }

    pub(super) fn finish(self) -> Vec<Row> {
        self.rows.finish()
    }

    pub(super) fn add(&mut self, range: Range<u32>, rule: Result<Rule, UnknownReason>) {
        let rule = rule.unwrap_or_else(|reason| {
            self.unknown.count(reason);
            Rule::UNKNOWN
        });
        if rule != self.last.0 {
            self.last = (rule, self.rules.index(&rule).into());
        }
        self.rows.push(range, self.last.1);
    }
}
