//! Offsets of single members, to confirm what tables say that are no layouts.

use super::{
    error::Error,
    structures::{Sections, Structures},
};
use crate::binaries::elf::{Elf, Source};

/// The offsets of members, each of a structure, in bytes; [`None`] for those that are not there.
///
/// # Errors
///
/// When the debugging information is absent or malformed.
pub fn offsets<S: Source>(
    elf: &Elf<S>,
    members: &[(&'static str, &str)],
) -> Result<Vec<Option<u64>>, Error> {
    if !elf.has_debug_info() {
        return Err(Error::Absent);
    }
    let sections = Sections::read(elf)?;
    let dwarf = sections.dwarf();
    let mut wanted: Vec<&'static str> = members.iter().map(|(structure, _)| *structure).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let structures = Structures::find(&dwarf, &wanted)?;
    let offsets = members.iter().map(|(structure, path)| {
        let member = structures.member(structure, path)?;
        Ok(member.map(|member| member.offset))
    });
    offsets.collect()
}
