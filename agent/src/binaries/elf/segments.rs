//! The loaded segments of a file.

use std::ops::Range;

use goblin::elf::{
    Header, ProgramHeader, header,
    program_header::{PF_W, PF_X, PT_LOAD},
};

/// Smallest and largest page of the supported architectures; mappings of segments start at a
/// multiple of the page size.
const PAGES: [u64; 2] = [4 << 10, 64 << 10];

/// A mapping of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// First address.
    pub start: u64,
    /// Offset of its start in the file, in bytes.
    pub file_offset: u64,
    /// Whether it may be executed.
    pub is_executable: bool,
}

/// A loaded segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Offset of its start in the file, in bytes.
    pub(super) file_offset: u64,
    /// Bytes of it that the file holds.
    pub(super) file_bytes: u64,
    /// First address before the load bias is added.
    pub(super) address: u64,
    /// Whether it may be written.
    pub(super) is_writable: bool,
    /// Whether it may be executed.
    pub(super) is_executable: bool,
}

/// The loaded segments of a file.
#[derive(Clone, Debug)]
pub struct Segments {
    /// Whether the bias is 0 where no segment matches a mapping (`ET_EXEC`).
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.loaded.iter()
    }

    /// The addresses of executable segments, before the load bias is added.
    pub fn code(&self) -> impl Iterator<Item = Range<u64>> {
        self.iter()
            .filter(|segment| segment.is_executable)
            .map(|segment| segment.address..segment.address.saturating_add(segment.file_bytes))
    }

    /// The load bias: the difference between addresses in memory and in the file, from one of the
    /// file's mappings.
    ///
    /// For `ET_EXEC` it is 0 where the kernel has mapped the file; a program may map its own file
    /// again elsewhere, as node does with its built-in code.
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

    /// Offset in the file of `address`, and the bytes from there to the end of its segment.
    pub(super) fn rest(&self, address: u64) -> Option<(u64, u64)> {
        self.iter().find_map(|segment| {
            let into = address.checked_sub(segment.address)?;
            let bytes = segment.file_bytes.checked_sub(into)?;
            Some((segment.file_offset.checked_add(into)?, bytes))
        })
    }

    /// Offset in the file of the `bytes` bytes at `address`.
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
    fn an_executable_with_fixed_addresses_can_be_mapped_elsewhere() {
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
        // No segment contains this offset.
        assert_eq!(bias(0x7f00_0000, 0x9_0000), Some(0));
    }
}
