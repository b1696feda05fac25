//! The parts of a file that are loaded, and where.

use std::ops::Range;

use goblin::elf::{
    Header, ProgramHeader, header,
    program_header::{PF_W, PF_X, PT_LOAD},
};

/// Smallest and largest page of the supported architectures; segments are mapped from a multiple
/// of the page's size on.
const PAGES: [u64; 2] = [4 << 10, 64 << 10];

/// A part of a file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// First address.
    pub start: u64,
    /// Where in the file it starts, in bytes.
    pub file_offset: u64,
    /// Whether it may be executed.
    pub is_executable: bool,
}

/// A part of a file that is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Where in the file it starts, in bytes.
    pub(super) file_offset: u64,
    /// How many bytes the file holds of it.
    pub(super) file_bytes: u64,
    /// First address before the load bias is added.
    pub(super) address: u64,
    /// Whether it may be written.
    pub(super) is_writable: bool,
    /// Whether it may be executed.
    pub(super) is_executable: bool,
}

/// The parts of a file that are loaded.
#[derive(Clone, Debug)]
pub struct Segments {
    /// Whether they are loaded at their own addresses, without a bias, where nothing else is known.
    is_fixed: bool,
    loaded: Box<[Segment]>,
}

impl Segments {
    pub(super) fn new(header: &Header, headers: &[ProgramHeader]) -> Self {
        let loaded = headers
            .iter()
            .filter(|header| header.p_type == PT_LOAD)
            .map(|header| Segment {
                file_offset: header.p_offset,
                file_bytes: header.p_filesz,
                address: header.p_vaddr,
                is_writable: header.p_flags & PF_W != 0,
                is_executable: header.p_flags & PF_X != 0,
            });
        Self {
            is_fixed: header.e_type == header::ET_EXEC,
            loaded: loaded.collect(),
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.loaded.iter()
    }

    /// The addresses of those that may be executed, before the load bias is added.
    pub fn code(&self) -> impl Iterator<Item = Range<u64>> {
        self.iter()
            .filter(|segment| segment.is_executable)
            .map(|segment| segment.address..segment.address.saturating_add(segment.file_bytes))
    }

    /// What is added to the file's addresses to get those in memory, as one of its mappings
    /// shows it.
    ///
    /// That of a file with addresses of its own is 0 where the kernel has mapped it; a program may
    /// map its own file once more elsewhere, as node does with its built-in code.
    #[must_use]
    pub fn load_bias(&self, placement: Placement) -> Option<u64> {
        let offset = placement.file_offset;
        let holds = |segment: &&Segment, page: u64| {
            let start = segment.file_offset & !(page - 1);
            let end = segment.file_offset.saturating_add(segment.file_bytes);
            (start..end).contains(&offset)
        };
        // A page of the file may hold the end of one segment and the start of the next, which
        // are mapped with different permissions.
        let loaded = || {
            self.iter()
                .filter(|segment| segment.is_executable == placement.is_executable)
        };
        PAGES
            .into_iter()
            .find_map(|page| loaded().find(|segment| holds(segment, page)))
            .map(|segment| {
                // Offset and address are congruent modulo the page, so this holds for any page
                // of the segment.
                let address = segment
                    .address
                    .wrapping_add(offset)
                    .wrapping_sub(segment.file_offset);
                placement.start.wrapping_sub(address)
            })
            .or(self.is_fixed.then_some(0))
    }

    /// Where in the file the `bytes` bytes at `address` are.
    #[must_use]
    pub fn file_offset(&self, address: u64, bytes: u64) -> Option<u64> {
        self.iter().find_map(|segment| {
            let into = address.checked_sub(segment.address)?;
            (into.checked_add(bytes)? <= segment.file_bytes)
                .then(|| segment.file_offset.checked_add(into))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Placement, Segment, Segments};

    #[test]
    fn a_file_with_addresses_of_its_own_can_be_mapped_elsewhere() {
        let segments = Segments {
            is_fixed: true,
            loaded: [Segment {
                file_offset: 0x1000,
                file_bytes: 0x3000,
                address: 0x40_1000,
                is_writable: false,
                is_executable: true,
            }]
            .into(),
        };
        let bias = |start, file_offset| {
            segments.load_bias(Placement {
                start,
                file_offset,
                is_executable: true,
            })
        };
        assert_eq!(bias(0x40_1000, 0x1000), Some(0));
        assert_eq!(bias(0x7f00_0000, 0x2000), Some(0x7f00_0000 - 0x40_2000));
        // Nothing is known of this part of the file.
        assert_eq!(bias(0x7f00_0000, 0x9_0000), Some(0));
    }
}
