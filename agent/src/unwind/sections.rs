//! Where the call-frame information of a file is.

use gimli::{BaseAddresses, EhFrameHdr, LittleEndian, Pointer};

use super::reason::{Reason, Unknown};
use crate::elf::{Elf, Error, Source};

/// Most bytes of a section that are read; the largest known files have 20 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Bytes of the start of `.eh_frame_hdr` that say where `.eh_frame` is.
const HEADER_BYTES: u64 = 32;

/// The sections of a file, empty where there is none.
#[derive(Debug, Default)]
pub(super) struct Sections {
    /// `.eh_frame`, and its address.
    pub(super) loaded: Vec<u8>,
    pub(super) address: u64,
    /// `.debug_frame`.
    pub(super) debugging: Vec<u8>,
}

impl Sections {
    /// Reads them. Where one is too large, `.eh_frame` is cut off and `.debug_frame` left out.
    pub(super) fn read<S: Source>(elf: &Elf<S>, unknown: &mut Unknown) -> Result<Self, Error> {
        let mut sections = Self::default();
        if let Some((address, bytes)) = loaded(elf)? {
            if bytes.is_some_and(|bytes| bytes > MAX_BYTES) {
                unknown.count(Reason::TooMany);
            }
            let limit = bytes.unwrap_or(MAX_BYTES).min(MAX_BYTES);
            sections.loaded = elf.loaded_from(address, limit)?;
            sections.address = address;
        }
        match elf.contents(".debug_frame", MAX_BYTES) {
            Ok(contents) => sections.debugging = contents,
            Err(Error::TooLarge { .. }) => unknown.count(Reason::TooMany),
            Err(Error::Compressed { .. }) => unknown.count(Reason::Malformed),
            Err(error) => return Err(error),
        }
        Ok(sections)
    }
}

/// The address of `.eh_frame`, and its size where that is known.
fn loaded<S: Source>(elf: &Elf<S>) -> Result<Option<(u64, Option<u64>)>, Error> {
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
