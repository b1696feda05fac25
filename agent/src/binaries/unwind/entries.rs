//! The offsets of frame description entries (FDEs) in a section of call-frame information.
//!
//! Only lengths are read, so that a malformed entry does not hide those behind it.

/// The format of a section of call-frame information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameFormat {
    /// `.eh_frame`: an entry of length 0 ends it; the id 0 marks a common information entry (CIE).
    EhFrame,
    /// `.debug_frame`: the largest id marks a CIE.
    DebugFrame,
}

/// Marks a 64-bit length, which follows.
const LONG: u32 = u32::MAX;

/// An iterator over the offsets of FDEs.
pub(super) struct Entries<'a> {
    section: &'a [u8],
    format: FrameFormat,
    next: usize,
}

impl<'a> Entries<'a> {
    pub(super) fn new(section: &'a [u8], format: FrameFormat) -> Self {
        Self {
            section,
            format,
            next: 0,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            let offset = self.next;
            let (contents, bytes) = header(self.section, offset)?;
            let bytes = usize::try_from(bytes).ok()?;
            if bytes == 0 {
                match self.format {
                    FrameFormat::EhFrame => return None,
                    FrameFormat::DebugFrame => self.next = contents,
                }
                continue;
            }
            self.next = contents.checked_add(bytes)?;
            let is_long = contents - offset > 4;
            let is_function = match self.format {
                FrameFormat::EhFrame => number(self.section, contents)? != 0,
                FrameFormat::DebugFrame if is_long => {
                    number(self.section, contents)? != LONG
                        || number(self.section, contents + 4)? != LONG
                }
                FrameFormat::DebugFrame => number(self.section, contents)? != LONG,
            };
            if is_function {
                return Some(offset);
            }
        }
    }
}

/// The length of the entry at `offset`, its length field not included.
pub(super) fn length(section: &[u8], offset: usize) -> Option<u64> {
    header(section, offset).map(|(_, bytes)| bytes)
}

/// The offset and the length of an entry's contents.
fn header(section: &[u8], offset: usize) -> Option<(usize, u64)> {
    let after = offset.checked_add(4)?;
    match number(section, offset)? {
        LONG => {
            let low = number(section, after)?;
            let high = number(section, offset.checked_add(8)?)?;
            Some((
                offset.checked_add(12)?,
                u64::from(high) << 32 | u64::from(low),
            ))
        }
        bytes => Some((after, bytes.into())),
    }
}

fn number(section: &[u8], offset: usize) -> Option<u32> {
    let bytes = section.get(offset..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::{Entries, FrameFormat};
    use proptest::prelude::{any, proptest};

    /// An entry with this id, followed by `bytes` bytes.
    fn entry(id: u32, bytes: u32) -> Vec<u8> {
        let mut entry = (bytes + 4).to_le_bytes().to_vec();
        entry.extend(id.to_le_bytes());
        entry.resize(entry.len() + bytes as usize, 7);
        entry
    }

    fn functions(section: &[u8], format: FrameFormat) -> Vec<usize> {
        Entries::new(section, format).collect()
    }

    #[test]
    fn only_fdes_are_found() {
        let section = [entry(0, 8), entry(5, 8), entry(u32::MAX, 4), entry(9, 0)].concat();
        assert_eq!(functions(&section, FrameFormat::EhFrame), [16, 32, 44]);
        assert_eq!(functions(&section, FrameFormat::DebugFrame), [0, 16, 44]);
        // An empty entry ends `.eh_frame` only.
        let section = [&entry(5, 8)[..], &[0; 4], &entry(5, 8)].concat();
        assert_eq!(functions(&section, FrameFormat::EhFrame), [0]);
        assert_eq!(functions(&section, FrameFormat::DebugFrame), [0, 20]);
    }

    #[test]
    fn entries_of_64_bit_lengths_are_read() {
        let long = |id: u64| {
            let mut entry = u32::MAX.to_le_bytes().to_vec();
            entry.extend(16_u64.to_le_bytes());
            entry.extend(id.to_le_bytes());
            entry.extend([7; 8]);
            entry
        };
        let section = [long(u64::MAX), long(u64::from(u32::MAX)), entry(5, 0)].concat();
        assert_eq!(functions(&section, FrameFormat::DebugFrame), [28, 56]);
        let section = [long(0), long(5), entry(5, 0)].concat();
        assert_eq!(functions(&section, FrameFormat::EhFrame), [28, 56]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(section in any::<Vec<u8>>()) {
            for format in [FrameFormat::EhFrame, FrameFormat::DebugFrame] {
                let functions = functions(&section, format);
                assert!(functions.is_sorted_by(|left, right| left < right));
            }
        }
    }
}
