//! From the descriptions of functions to rows.

use std::{collections::HashMap, ops::Range};

use agent_common::unwind::Rule;
use gimli::{
    BaseAddresses, CommonInformationEntry, DebugFrame, EhFrame, FrameDescriptionEntry,
    LittleEndian, UnwindContext, UnwindOffset, UnwindSection, UnwindTable,
};

use super::{
    code::Code,
    entries::{self, Entries, Layout},
    expression::Bytes,
    machine::Machine,
    reason::{Reason, Unknown},
    rows::{Row, Rows},
    rule::Translator,
    rules::Rules,
    sections::Loaded,
    storage::Storage,
};

/// Bytes of an address in a file of 64 bits.
const ADDRESS_BYTES: u8 = 8;

/// Most functions of a section; the largest known files have 400,000. A function takes eight
/// bytes of memory.
const MAX_FUNCTIONS: usize = 4 << 20;

/// Most rows of a file, before those that say the same become one; the largest known files have
/// 3 million. A row takes eight bytes.
const MAX_ROWS: usize = 8 << 20;

/// Most bytes of what functions have in common; real ones have thirty.
const MAX_COMMON_BYTES: u64 = 1 << 10;

/// Most bytes of descriptions that are evaluated, those of what functions have in common once for
/// each of them; the largest known files have 26 MB.
const MAX_EVALUATED: u64 = 128 << 20;

/// Most of those that are remembered.
const MAX_REMEMBERED: usize = 1 << 10;

/// What a file may still cost.
#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes of descriptions that are evaluated.
    bytes: u64,
    /// Rows that are made.
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
    /// Whether another row may be made.
    pub(super) fn take_row(&mut self) -> bool {
        let is_left = self.rows > 0;
        self.rows -= usize::from(is_left);
        is_left
    }

    /// Whether no row may be made any more.
    pub(super) fn is_spent(&self) -> bool {
        self.rows == 0
    }
}

type Common<'a> = CommonInformationEntry<Bytes<'a>>;
/// What functions have in common, by its offset; [`None`] where it makes no sense.
type Commons<'a> = HashMap<usize, Option<Common<'a>>>;
type Function<'a> = FrameDescriptionEntry<Bytes<'a>>;

/// A section of call-frame information, and what its functions are to be understood with.
pub(super) struct Evaluation<'a, S> {
    section: S,
    bytes: &'a [u8],
    layout: Layout,
    bases: BaseAddresses,
    machine: &'a Machine,
    code: &'a Code,
}

impl<'a> Evaluation<'a, EhFrame<Bytes<'a>>> {
    /// Of the section `.eh_frame`.
    pub(super) fn loaded(loaded: &'a Loaded, machine: &'a Machine, code: &'a Code) -> Self {
        let mut section = EhFrame::new(&loaded.bytes, LittleEndian);
        section.set_address_size(ADDRESS_BYTES);
        section.set_vendor(machine.vendor);
        Self {
            section,
            bytes: &loaded.bytes,
            layout: Layout::Loaded,
            bases: BaseAddresses::default().set_eh_frame(loaded.address),
            machine,
            code,
        }
    }
}

impl<'a> Evaluation<'a, DebugFrame<Bytes<'a>>> {
    /// Of the section `.debug_frame`.
    pub(super) fn debugging(bytes: &'a [u8], machine: &'a Machine, code: &'a Code) -> Self {
        let mut section = DebugFrame::new(bytes, LittleEndian);
        section.set_address_size(ADDRESS_BYTES);
        section.set_vendor(machine.vendor);
        Self {
            section,
            bytes,
            layout: Layout::Debugging,
            bases: BaseAddresses::default(),
            machine,
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
    /// Of functions that overlap the one with the higher start holds from there on, as unwinders
    /// that search by the start have it; of those with the same start the first in the section.
    pub(super) fn rows(
        &self,
        budget: &mut Budget,
        rules: &mut Rules,
        unknown: &mut Unknown,
    ) -> Vec<Row> {
        let mut output = Output::new(budget, rules, unknown);
        let mut context = Box::new(UnwindContext::new_in());
        let mut commons = Commons::new();
        let starts = self.starts(&mut commons, output.unknown);
        self.each(&starts, &mut commons, |function, range| {
            self.evaluate(function, range, &mut context, &mut output);
        });
        output.finish()
    }

    /// The extents of all functions, as [`Self::rows`] has them.
    pub(super) fn extents(&self) -> Vec<Range<u32>> {
        let mut commons = Commons::new();
        let starts = self.starts(&mut commons, &mut Unknown::default());
        let mut extents = Vec::with_capacity(starts.len());
        self.each(&starts, &mut commons, |_, range| extents.push(range));
        extents
    }

    /// Calls `look` with every function and the distances that belong to it.
    fn each(
        &self,
        starts: &[u64],
        commons: &mut Commons<'a>,
        mut look: impl FnMut(&Function<'a>, Range<u32>),
    ) {
        let mut starts = starts.iter().copied().map(parts).peekable();
        while let Some((start, offset)) = starts.next() {
            while starts.next_if(|(next, _)| *next == start).is_some() {}
            let limit = starts.peek().map_or(u32::MAX, |(next, _)| *next);
            let Some(function) = self.function(commons, offset) else {
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

    /// Where functions start, in the order of that, each with where its description is.
    fn starts(&self, commons: &mut Commons<'a>, unknown: &mut Unknown) -> Vec<u64> {
        let mut starts = Vec::new();
        for offset in Entries::new(self.bytes, self.layout) {
            let Some(function) = self.function(commons, offset) else {
                unknown.count(Reason::Malformed);
                continue;
            };
            if function.len() == 0 {
                continue;
            }
            match self
                .code
                .distances(function.initial_address(), function.len())
            {
                None => unknown.count(Reason::NoCode),
                Some(_) if starts.len() == MAX_FUNCTIONS => unknown.count(Reason::TooMany),
                // A section has fewer bytes than 32 bits can count.
                Some(range) => starts.push(u64::from(range.start) << 32 | offset as u64),
            }
        }
        starts.sort_unstable();
        starts
    }

    /// The description of a function, if it makes sense.
    fn function(&self, commons: &mut Commons<'a>, offset: usize) -> Option<Function<'a>> {
        let partial = self
            .section
            .partial_fde_from_offset(&self.bases, offset.into())
            .ok()?;
        let common = self.common(commons, UnwindOffset::into(partial.cie_offset()))?;
        partial.parse(|_, _, _| Ok(common.clone())).ok()
    }

    /// What functions have in common, if it makes sense.
    fn common(&self, commons: &mut Commons<'a>, offset: usize) -> Option<Common<'a>> {
        if commons.len() >= MAX_REMEMBERED {
            commons.clear();
        }
        let read = || {
            entries::length(self.bytes, offset).filter(|bytes| *bytes <= MAX_COMMON_BYTES)?;
            let common = self.section.cie_from_offset(&self.bases, offset.into());
            common.ok()
        };
        commons.entry(offset).or_insert_with(read).clone()
    }

    /// Adds the rows of a function.
    fn evaluate(
        &self,
        function: &Function<'a>,
        range: Range<u32>,
        context: &mut UnwindContext<usize, Storage>,
        output: &mut Output<'_>,
    ) {
        let translator = Translator {
            machine: self.machine,
            section: &self.section,
        };
        let bytes = (function.entry_len() + function.cie().entry_len()) as u64;
        if output.budget.bytes < bytes || output.budget.is_spent() {
            output.unknown.count(Reason::TooMany);
            return;
        }
        output.budget.bytes -= bytes;
        let Range { start, end } = range;
        let mut position = start;
        let mut reason = Reason::Malformed;
        if let Ok(mut table) = UnwindTable::new(&self.section, &self.bases, context, function) {
            while position < end {
                if !output.budget.take_row() {
                    reason = Reason::TooMany;
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

/// The start of a function as a distance, and where its description is.
fn parts(key: u64) -> (u32, usize) {
    ((key >> 32) as u32, (key & 0xffff_ffff) as usize)
}

/// Where rows go.
pub(super) struct Output<'a> {
    rows: Rows,
    rules: &'a mut Rules,
    pub(super) unknown: &'a mut Unknown,
    /// The last rule and its index: the next one is often the same.
    last: (Rule, u32),
    pub(super) budget: &'a mut Budget,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        budget: &'a mut Budget,
        rules: &'a mut Rules,
        unknown: &'a mut Unknown,
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

    pub(super) fn add(&mut self, range: Range<u32>, rule: Result<Rule, Reason>) {
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
