//! A part of a file that is read page by page.
//!
//! Invariants: at most [`SLOTS`] pages are in memory; bytes that are not there, or cannot be read, are
//! zero.

use std::cell::RefCell;

use super::{numbers::at_most, source::Source};

/// Bytes of a page.
const PAGE: usize = 8 << 10;

/// Most pages in memory, 512 KiB.
const SLOTS: usize = 64;

/// A part of a file.
pub(super) struct Pages<S> {
    source: S,
    /// Its start in the file.
    offset: u64,
    bytes: u64,
    /// By the number of the page modulo [`SLOTS`].
    slots: RefCell<Box<[Option<Page>]>>,
}

struct Page {
    number: u64,
    contents: Box<[u8]>,
}

impl<S: Source> Pages<S> {
    /// The `bytes` bytes of a file at `offset`.
    pub(super) fn new(source: S, offset: u64, bytes: u64) -> Self {
        Self {
            source,
            offset,
            bytes,
            slots: RefCell::new((0..SLOTS).map(|_| None).collect()),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes in memory.
    pub(super) fn resident(&self) -> usize {
        let slots = self.slots.borrow();
        let pages = slots.iter().flatten();
        size_of_val(&**slots) + pages.map(|page| page.contents.len()).sum::<usize>()
    }

    /// Frees all pages.
    pub(super) fn clear(&self) {
        self.slots.borrow_mut().fill_with(|| None);
    }

    /// The bytes at `at`.
    pub(super) fn array<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut into = [0; N];
        self.fill(at, &mut into);
        into
    }

    /// The number at `at`.
    pub(super) fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    /// The number at `at`.
    pub(super) fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    /// The bytes at `at` up to a zero byte, at most `most`.
    pub(super) fn text(&self, at: u64, most: usize) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < most {
            let piece: [u8; 64] = self.array(at.saturating_add(text.len() as u64));
            let end = piece.iter().position(|&byte| byte == 0);
            text.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            if end.is_some() {
                break;
            }
        }
        text.truncate(most);
        text
    }

    /// Fills `into` with the bytes at `at`.
    pub(super) fn fill(&self, at: u64, into: &mut [u8]) {
        into.fill(0);
        let mut slots = self.slots.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let at = at.saturating_add(done as u64);
            if at >= self.bytes {
                return;
            }
            let number = at / PAGE as u64;
            let start = at_most(at % PAGE as u64, PAGE);
            let slot = &mut slots[at_most(number % SLOTS as u64, SLOTS)];
            if slot.as_ref().is_none_or(|page| page.number != number) {
                *slot = self.read(number);
            }
            let page = slot.as_ref().map_or(&[][..], |page| &page.contents);
            let piece = page.get(start..).unwrap_or_default();
            let bytes = piece.len().min(into.len() - done);
            if bytes == 0 {
                return;
            }
            into[done..done + bytes].copy_from_slice(&piece[..bytes]);
            done += bytes;
        }
    }

    fn read(&self, number: u64) -> Option<Page> {
        let start = number * PAGE as u64;
        let mut contents = vec![0; at_most(self.bytes - start, PAGE)].into_boxed_slice();
        let from = self.offset.checked_add(start)?;
        self.source.fill(&mut contents, from).ok()?;
        Some(Page { number, contents })
    }
}

impl<S> std::fmt::Debug for Pages<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes at {}", self.bytes, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, Pages, SLOTS};

    #[test]
    fn it_reads_like_a_slice_in_bounded_memory() {
        let contents: Vec<u8> = (0..3 * SLOTS * PAGE)
            .map(|at| u8::try_from(at / 7 % 251).unwrap())
            .collect();
        let pages = Pages::new(contents.as_slice(), 3, contents.len() as u64 - 3);
        for at in (0..contents.len()).step_by(PAGE / 3).rev() {
            let mut piece = [1; 100];
            pages.fill(at as u64, &mut piece);
            let mut expected = [0; 100];
            let rest = contents.get(3 + at..).unwrap_or_default();
            let bytes = rest.len().min(100);
            expected[..bytes].copy_from_slice(&rest[..bytes]);
            assert_eq!(piece, expected, "{at}");
        }
        assert!(pages.resident() <= SLOTS * (PAGE + 32));
        pages.clear();
        assert!(pages.resident() < SLOTS * 64);
        assert_eq!(pages.u32(u64::MAX), 0);
    }

    #[test]
    fn a_file_that_is_too_short_reads_as_zero() {
        let contents = [1_u8; 20];
        let pages = Pages::new(contents.as_slice(), 0, 1 << 60);
        assert_eq!(pages.u64(0), 0);
        assert_eq!(pages.text(0, 100), b"");
        let pages = Pages::new(contents.as_slice(), 0, 20);
        assert_eq!(pages.text(10, 100), [1; 10]);
        assert_eq!(pages.text(10, 3), [1; 3]);
    }
}
