//! Where the descriptions of functions in a section of call-frame information are.
//!
//! Only lengths are followed, so that one that makes no sense does not hide those behind it.

/// How the sections of call-frame information differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `.eh_frame`: an entry without a length ends it, and what has the id 0 describes no function.
    Loaded,
    /// `.debug_frame`: what has the largest id describes no function.
    Debugging,
}

/// Marks a length of 64 bits behind it.
const LONG: u32 = u32::MAX;

/// The offsets of the descriptions of functions.
pub(super) struct Entries<'a> {
    section: &'a [u8],
    layout: Layout,
    next: usize,
}

impl<'a> Entries<'a> {
    pub(super) fn new(section: &'a [u8], layout: Layout) -> Self {
        Self {
            section,
            layout,
            next: 0,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            let offset = self.next;
            let (contents, bytes) = head(self.section, offset)?;
            let bytes = usize::try_from(bytes).ok()?;
            if bytes == 0 {
                match self.layout {
                    Layout::Loaded => return None,
                    Layout::Debugging => self.next = contents,
                }
                continue;
            }
            self.next = contents.checked_add(bytes)?;
            let is_long = contents - offset > 4;
            let is_function = match self.layout {
                Layout::Loaded => number(self.section, contents)? != 0,
                Layout::Debugging if is_long => {
                    number(self.section, contents)? != LONG
                        || number(self.section, contents + 4)? != LONG
                }
                Layout::Debugging => number(self.section, contents)? != LONG,
            };
            if is_function {
                return Some(offset);
            }
        }
    }
}

/// The bytes of the entry at `offset`, without those that say how many it has.
pub(super) fn length(section: &[u8], offset: usize) -> Option<u64> {
    head(section, offset).map(|(_, bytes)| bytes)
}

/// Where the contents of an entry start, and how many bytes they have.
fn head(section: &[u8], offset: usize) -> Option<(usize, u64)> {
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
    use super::{Entries, Layout};
    use proptest::prelude::{any, proptest};

    /// An entry with this id and so many bytes behind it.
    fn entry(id: u32, bytes: u32) -> Vec<u8> {
        let mut entry = (bytes + 4).to_le_bytes().to_vec();
        entry.extend(id.to_le_bytes());
        entry.resize(entry.len() + bytes as usize, 7);
        entry
    }

    fn functions(section: &[u8], layout: Layout) -> Vec<usize> {
        Entries::new(section, layout).collect()
    }

    #[test]
    fn only_functions_come_out() {
        let section = [entry(0, 8), entry(5, 8), entry(u32::MAX, 4), entry(9, 0)].concat();
        assert_eq!(functions(&section, Layout::Loaded), [16, 32, 44]);
        assert_eq!(functions(&section, Layout::Debugging), [0, 16, 44]);
        // An empty entry ends one of them.
        let section = [&entry(5, 8)[..], &[0; 4], &entry(5, 8)].concat();
        assert_eq!(functions(&section, Layout::Loaded), [0]);
        assert_eq!(functions(&section, Layout::Debugging), [0, 20]);
    }

    #[test]
    fn long_entries_are_followed() {
        let long = |id: u64| {
            let mut entry = u32::MAX.to_le_bytes().to_vec();
            entry.extend(16_u64.to_le_bytes());
            entry.extend(id.to_le_bytes());
            entry.extend([7; 8]);
            entry
        };
        let section = [long(u64::MAX), long(u64::from(u32::MAX)), entry(5, 0)].concat();
        assert_eq!(functions(&section, Layout::Debugging), [28, 56]);
        let section = [long(0), long(5), entry(5, 0)].concat();
        assert_eq!(functions(&section, Layout::Loaded), [28, 56]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(section in any::<Vec<u8>>()) {
            for layout in [Layout::Loaded, Layout::Debugging] {
                let functions = functions(&section, layout);
                assert!(functions.is_sorted_by(|left, right| left < right));
            }
        }
    }
}
