//! Opens the sections of debugging information of a file.

use std::sync::Arc;

use gimli::{Dwarf, DwarfSections, SectionId};

use super::{
    budget::MAX_READ, error::DwarfError, files::DwarfFiles, inflated::InflatedSections,
    meter::Meter, paged_section::PagedSection, section_reader::SectionReader,
};
use crate::binaries::elf::{Elf, Shared};

/// The sections that look-ups read.
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
    /// Sections of the supplementary file (`dwz`).
    pub(super) shared: Option<Dwarf<SectionReader>>,
    pub(super) meter: Arc<Meter>,
    /// Bytes in memory after opening: decompressed sections.
    pub(super) bytes_after_open: usize,
}

impl OpenSections {
    /// Opens the sections of files; compressed ones are decompressed once. At most `max_resident`
    /// bytes of all sections are in memory at once.
    pub(super) fn open(
        files: &DwarfFiles<'_>,
        inflated: &mut InflatedSections,
        max_resident: usize,
    ) -> Result<Self, DwarfError> {
        let meter = Arc::new(Meter::new(max_resident));
        meter.allow(MAX_READ);
        let main = load(files.main, false, inflated, &meter)?;
        let shared = files.shared;
        let shared = shared.map(|file| load(file, true, inflated, &meter));
        let shared = shared.transpose()?;
        Ok(Self {
            dwarf: main.borrow_with_sup(shared.as_ref(), Clone::clone),
            shared: shared.map(|sections| sections.borrow(Clone::clone)),
            bytes_after_open: meter.resident(),
            meter,
        })
    }

    /// Bytes read since opening.
    pub(super) fn grown(&self) -> usize {
        self.meter.resident() - self.bytes_after_open
    }
}

fn load(
    elf: &Elf<Shared>,
    is_shared: bool,
    inflated: &mut InflatedSections,
    meter: &Arc<Meter>,
) -> Result<DwarfSections<SectionReader>, DwarfError> {
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
            let found = inflated.get(elf, (name, is_shared), meter.room())?;
            if found.is_in_memory {
                meter.keep(usize::try_from(found.bytes).unwrap_or(usize::MAX))?;
            }
            let place = (found.offset, found.bytes);
            PagedSection::in_file(next, found.source, place, Arc::clone(meter))?
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
