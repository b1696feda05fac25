//! Where the call-frame information of a file is.

use gimli::{BaseAddresses, EhFrameHdr, LittleEndian, Pointer};

use super::reason::{Reason, Unknown};
use crate::binaries::elf::{Elf, Error, GoTable, Source};

/// Most bytes of a section that are read, since it is kept in memory for that time; the largest
/// known files have 18 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Bytes of the start of `.eh_frame_hdr` that say where `.eh_frame` is.
const HEADER_BYTES: u64 = 32;

/// The contents of `.eh_frame`; empty where there is none.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Its address before the load bias is added.
    pub(super) address: u64,
    /// It, cut off where it is too large.
    pub(super) bytes: Vec<u8>,
}

impl Loaded {
    pub(super) fn read<S: Source>(elf: &Elf<S>, unknown: &mut Unknown) -> Result<Self, Error> {
        let Some((address, bytes)) = place(elf)? else {
            return Ok(Self::default());
        };
        if bytes.is_some_and(|bytes| bytes > MAX_BYTES) {
            unknown.count(Reason::TooMany);
        }
        let limit = bytes.unwrap_or(MAX_BYTES).min(MAX_BYTES);
        let bytes = elf.loaded_from(address, limit)?;
        Ok(Self { address, bytes })
    }
}

/// The contents of `.debug_frame`; empty where there is none that can be read.
pub(super) fn debugging<S: Source>(elf: &Elf<S>, unknown: &mut Unknown) -> Vec<u8> {
    elf.contents(".debug_frame", MAX_BYTES)
        .unwrap_or_else(|error| {
            unknown.count(reason(&error));
            Vec::new()
        })
}

/// What the Go linker says of its functions; [`None`] where it has made none or it cannot be read.
pub(super) fn go_table<S: Source>(elf: &Elf<S>, unknown: &mut Unknown) -> Option<GoTable> {
    elf.go_table().unwrap_or_else(|error| {
        unknown.count(reason(&error));
        None
    })
}

fn reason(error: &Error) -> Reason {
    match error {
        Error::TooLarge { .. } => Reason::TooMany,
        _ => Reason::Malformed,
    }
}

/// The address of `.eh_frame`, and its size where that is known.
fn place<S: Source>(elf: &Elf<S>) -> Result<Option<(u64, Option<u64>)>, Error> {
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
        // It ends with an entry that is empty.
        Ok(Pointer::Direct(address)) => Some((address, None)),
        _ => None,
    })
}
