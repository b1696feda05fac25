//! The sections of debugging information of a file.

use std::sync::Arc;

use gimli::{Dwarf, DwarfSections, SectionId};

use super::{
    budget::MAX_READ,
    bytes::{Meter, PagedSection, SectionReader},
    error::DwarfError,
    files::DwarfFiles,
};
use crate::binaries::elf::{self, Elf, Shared};

/// Those that say which function and which line an address is of.
const NEEDED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// Open sections.
pub(super) struct OpenSections {
    pub(super) dwarf: Dwarf<SectionReader>,
    /// Those of the file that several share.
    pub(super) shared: Option<Dwarf<SectionReader>>,
    pub(super) meter: Arc<Meter>,
    /// Bytes in memory from the beginning: what was compressed.
    pub(super) at_first: usize,
}

impl OpenSections {
    /// Opens the sections of files; those that are compressed are read as a whole. Not more than
    /// `most_resident` bytes of all of them are in memory at once.
    pub(super) fn open(files: &DwarfFiles<'_>, most_resident: usize) -> Result<Self, DwarfError> {
        let meter = Arc::new(Meter::new(most_resident));
        meter.allow(MAX_READ);
        let main = load(files.main, &meter)?;
        let shared = files.shared.map(|file| load(file, &meter)).transpose()?;
        Ok(Self {
            dwarf: main.borrow_with_sup(shared.as_ref(), Clone::clone),
            shared: shared.map(|sections| sections.borrow(Clone::clone)),
            at_first: meter.resident(),
            meter,
        })
    }

    /// Bytes that were read since.
    pub(super) fn grown(&self) -> usize {
        self.meter.resident() - self.at_first
    }
}

fn load(elf: &Elf<Shared>, meter: &Arc<Meter>) -> Result<DwarfSections<SectionReader>, DwarfError> {
    let mut next = 0;
    DwarfSections::load(|id| {
        next += 1;
        if !NEEDED.contains(&id) {
            return empty(next, meter);
        }
        let name = id.name();
        let Some(section) = elf.section(name) else {
            return empty(next, meter);
        };
        let Some(offset) = section.file_offset else {
            return empty(next, meter);
        };
        let section = if section.is_compressed {
            let contents = elf
                .contents(name, meter.room())
                .map_err(|error| match error {
                    elf::Error::TooLarge { .. } => DwarfError::TooLarge,
                    elf::Error::Read { .. } => DwarfError::Unreadable,
                    _ => DwarfError::Malformed,
                })?;
            PagedSection::in_memory(next, contents, Arc::clone(meter))?
        } else {
            PagedSection::in_file(
                next,
                elf.source(),
                (offset, section.bytes),
                Arc::clone(meter),
            )?
        };
        Ok(SectionReader::of(section))
    })
}

fn empty(id: u64, meter: &Arc<Meter>) -> Result<SectionReader, DwarfError> {
    let section = PagedSection::in_memory(id, Vec::new(), Arc::clone(meter))?;
    Ok(SectionReader::of(section))
}
