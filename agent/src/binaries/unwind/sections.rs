//! The sections of a file with call-frame information.

use gimli::{BaseAddresses, EhFrameHdr, LittleEndian, Pointer};

use super::reason::{UnknownCounts, UnknownReason};
use crate::binaries::elf::{Elf, Error, GoTable, Source};

/// Most bytes of a section, which is read into memory; the largest known files have 18 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Bytes of the start of `.eh_frame_hdr`, with the address of `.eh_frame`.
const HEADER_BYTES: u64 = 32;

/// The contents of `.eh_frame`; empty where there is none.
#[derive(Debug, Default)]
pub(super) struct EhFrameSection {
    /// Its address before the load bias is added.
    pub(super) address: u64,
    /// Its bytes, truncated where it is too large.
    pub(super) bytes: Vec<u8>,
}

impl EhFrameSection {
    pub(super) fn read<S: Source>(
        elf: &Elf<S>,
        unknown: &mut UnknownCounts,
    ) -> Result<Self, Error> {
        let Some((address, bytes)) = address_and_size(elf)? else {
            return Ok(Self::default());
        };
        if bytes.is_some_and(|bytes| bytes > MAX_BYTES) {
            unknown.count(UnknownReason::TooMany);
        }
        let limit = bytes.unwrap_or(MAX_BYTES).min(MAX_BYTES);
        let bytes = elf.loaded_from(address, limit)?;
        Ok(Self { address, bytes })
    }
}

/// The contents of `.debug_frame`; empty where there is none that can be read.
pub(super) fn debug_frame<S: Source>(elf: &Elf<S>, unknown: &mut UnknownCounts) -> Vec<u8> {
    elf.contents(".debug_frame", MAX_BYTES)
        .unwrap_or_else(|error| {
            unknown.count(reason(&error));
            Vec::new()
        })
}

/// The Go linker's table of functions; [`None`] where there is none or it cannot be read.
pub(super) fn go_table<'a, S: Source>(
    elf: &'a Elf<S>,
    unknown: &mut UnknownCounts,
) -> Option<GoTable<&'a S>> {
    elf.go_table().unwrap_or_else(|error| {
        unknown.count(reason(&error));
        None
    })
}

fn reason(error: &Error) -> UnknownReason {
    match error {
        Error::TooLarge { .. } => UnknownReason::TooMany,
        _ => UnknownReason::Malformed,
    }
}

/// The address of `.eh_frame`, and its size where that is known.
fn address_and_size<S: Source>(elf: &Elf<S>) -> Result<Option<(u64, Option<u64>)>, Error> {
    if let Some(section) = elf.section(".eh_frame") {
        return Ok(section
            .file_offset
            .map(|_| (section.address, Some(section.bytes))));
    }
    let Some(address) = elf.frame_header() else {
        return Ok(None);
    };
    let header = elf.loaded_from(address, HEADER_BYTES)?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(address);
    let header = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8);
    Ok(match header.map(|header| header.eh_frame_ptr()) {
        // An empty entry ends it.
        Ok(Pointer::Direct(address)) => Some((address, None)),
        _ => None,
    })
}
