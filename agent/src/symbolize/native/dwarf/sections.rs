//! The sections of debugging information of a file.

use std::sync::Arc;

use gimli::{Dwarf, SectionId};

use super::{
    Error,
    bytes::{Bytes, Meter, Section},
};
use crate::elf::{self, Elf, Shared};

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

/// Opens the sections of a file; those that are compressed are read as a whole.
pub(super) fn open(elf: &Elf<Shared>, meter: &Arc<Meter>) -> Result<Dwarf<Bytes>, Error> {
    let mut next = 0;
    Dwarf::load(|id| {
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
                    elf::Error::TooLarge { .. } => Error::TooLarge,
                    elf::Error::Read { .. } => Error::Unreadable,
                    _ => Error::Malformed,
                })?;
            Section::in_memory(next, contents, Arc::clone(meter))?
        } else {
            Section::in_file(
                next,
                elf.source(),
                (offset, section.bytes),
                Arc::clone(meter),
            )?
        };
        Ok(Bytes::of(section))
    })
}

fn empty(id: u64, meter: &Arc<Meter>) -> Result<Bytes, Error> {
    let section = Section::in_memory(id, Vec::new(), Arc::clone(meter))?;
    Ok(Bytes::of(section))
}
