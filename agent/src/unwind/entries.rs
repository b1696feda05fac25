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
