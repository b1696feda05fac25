//! gimli's view of a [`PagedSection`].
//!
//! Invariants: a page is read on the first access to it; the pages in memory, and the bytes read in one
//! look-up, are bounded by the [`Meter`](super::meter::Meter); strings have at most [`MAX_STRING`] bytes.

use std::{borrow::Cow, sync::Arc};

use gimli::{Error, LittleEndian, Reader, ReaderOffsetId, Result};
use memchr::memchr;

use super::paged_section::{PAGE, PagedSection};

/// The [`Meter`](super::meter::Meter) is charged when a read crosses a multiple of this, in bytes.
const COUNTED: usize = 256;

/// Most bytes of a string.
const MAX_STRING: usize = 64 << 10;

/// A range of a section.
#[derive(Clone, Debug)]
pub(super) struct SectionReader {
    section: Arc<PagedSection>,
    start: usize,
    length: usize,
}

impl SectionReader {
    /// All of a section.
    pub(super) fn of(section: PagedSection) -> Self {
        Self {
            start: 0,
            length: section.bytes,
            section: Arc::new(section),
        }
    }

    /// Copies the range, up to `most` bytes of it.
    pub(super) fn take(&self, most: usize) -> Result<Vec<u8>> {
        let mut contents = vec![0; self.length.min(most)];
        self.clone().read_slice(&mut contents)?;
        Ok(contents)
    }

    fn end(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    #[inline]
    fn advance(&mut self, bytes: usize) -> Result<()> {
        let before = self.start;
        self.start += bytes;
        self.length -= bytes;
        if before / COUNTED == self.start / COUNTED {
            return Ok(());
        }
        self.section.meter.spend(bytes.max(COUNTED))
    }

    /// Fills `into` from the start of the range when that spans pages.
    #[cold]
    fn read_across(&mut self, into: &mut [u8]) -> Result<()> {
        if into.len() > self.length {
            return Err(self.end());
        }
        let mut done = 0;
        while done < into.len() {
            let piece = self.section.at(self.start + done)?;
            let bytes = piece.len().min(into.len() - done);
            if bytes == 0 {
                return Err(self.end());
            }
            into[done..done + bytes].copy_from_slice(&piece[..bytes]);
            done += bytes;
        }
        self.advance(into.len())
    }
}

impl Reader for SectionReader {
    type Endian = LittleEndian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        self.length
    }

    #[inline]
    fn empty(&mut self) {
        self.length = 0;
    }

    #[inline]
    fn truncate(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.length {
            return Err(self.end());
        }
        self.length = bytes;
        Ok(())
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.start.saturating_sub(base.start)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.section.id << 48 | self.start as u64)
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let into = id.0.checked_sub(self.offset_id().0)?;
        usize::try_from(into)
            .ok()
            .filter(|into| *into <= self.length)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let mut done = 0;
        while done < self.length.min(MAX_STRING) {
            let piece = self.section.at(self.start + done)?;
            let piece = &piece[..piece.len().min(self.length - done).min(PAGE)];
            if piece.is_empty() {
                break;
            }
            self.section.meter.spend(piece.len().min(COUNTED))?;
            if let Some(found) = memchr(byte, piece) {
                return Ok(done + found);
            }
            done += piece.len();
        }
        Err(self.end())
    }

    #[inline]
    fn skip(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.length {
            return Err(self.end());
        }
        self.start += bytes;
        self.length -= bytes;
        Ok(())
    }

    #[inline]
    fn split(&mut self, bytes: usize) -> Result<Self> {
        let mut first = self.clone();
        first.truncate(bytes)?;
        self.skip(bytes)?;
        Ok(first)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        if self.length == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        match self.section.at(self.start)?.get(..self.length) {
            Some(slice) => Ok(Cow::Borrowed(slice)),
            None => self.take(MAX_STRING).map(Cow::Owned),
        }
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        let text = match self.to_slice()? {
            Cow::Borrowed(slice) => str::from_utf8(slice).map(Cow::Borrowed).ok(),
            Cow::Owned(slice) => String::from_utf8(slice).map(Cow::Owned).ok(),
        };
        text.ok_or(Error::BadUtf8)
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Ok(match self.to_slice()? {
            Cow::Borrowed(slice) => String::from_utf8_lossy(slice),
            Cow::Owned(slice) => Cow::Owned(String::from_utf8_lossy(&slice).into_owned()),
        })
    }

    #[inline]
    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        if into.len() <= self.length
            && let Some(from) = self.section.at(self.start)?.get(..into.len())
        {
            into.copy_from_slice(from);
            return self.advance(into.len());
        }
        self.read_across(into)
    }

    #[inline]
    fn read_u8(&mut self) -> Result<u8> {
        if self.length == 0 {
            return Err(self.end());
        }
        let first = self.section.at(self.start)?.first().copied();
        self.advance(1)?;
        first.ok_or(Error::Io)
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, PagedSection, SectionReader};
    use crate::{binaries::elf::Shared, symbolize::elf_symbols::dwarf::meter::Meter};
    use gimli::{EndianSlice, LittleEndian, Reader};
    use proptest::prelude::{any, prop, proptest};
    use std::sync::Arc;

    /// A paged section and one in memory with the same bytes.
    fn both(contents: &[u8], most: usize) -> [SectionReader; 2] {
        let meter = Arc::new(Meter::new(most));
        meter.allow(1 << 30);
        let source: Shared = Arc::new([b"before", contents].concat());
        let place = (6, contents.len() as u64);
        [
            PagedSection::in_file(1, source, place, Arc::clone(&meter)).unwrap(),
            PagedSection::in_memory(2, contents.to_vec(), meter).unwrap(),
        ]
        .map(SectionReader::of)
    }

    #[test]
    fn only_accessed_pages_are_read() {
        let contents = vec![7; 100 * PAGE];
        let [mut file, _] = both(&contents, 1 << 24);
        let meter = Arc::clone(&file.section.meter);
        let before = meter.resident();
        file.skip(10 * PAGE - 2).unwrap();
        assert_eq!(meter.resident(), before);
        assert_eq!(file.read_u32().unwrap(), 0x0707_0707);
        assert_eq!(meter.resident(), before + 2 * PAGE);
    }

    #[test]
    fn limits_hold() {
        let contents = vec![7; 100 * PAGE];
        let source: Shared = Arc::new(contents);
        let meter = Arc::new(Meter::new(10 * PAGE));
        meter.allow(1 << 30);
        let place = (0, 100 * PAGE as u64);
        let section = PagedSection::in_file(1, source, place, Arc::clone(&meter)).unwrap();
        let mut bytes = SectionReader::of(section);
        assert!(bytes.find(0).is_err());
        assert!(!meter.is_exhausted());
        assert!((0..100 * PAGE).any(|_| bytes.read_u8().is_err()));
        assert!(meter.is_exhausted());

        let [mut file, _] = both(&vec![7; 10 * PAGE], 1 << 24);
        file.section.meter.allow(1000);
        assert!((0..2000).any(|_| file.read_u8().is_err()));
    }

    fn part<R: Reader<Offset = usize>>(reader: &mut R, bytes: usize) -> gimli::Result<usize> {
        Ok(reader.split(bytes)?.len())
    }

    fn text<R: Reader<Offset = usize>>(reader: &mut R, most: usize) -> gimli::Result<Vec<u8>> {
        let mut part = reader.clone();
        part.truncate(most.min(part.len()))?;
        Ok(part.to_slice()?.into_owned())
    }

    proptest! {
        #[test]
        fn it_reads_like_a_slice(
            contents in prop::collection::vec(0..4_u8, 0..3 * PAGE),
            steps in prop::collection::vec((0..8_u8, any::<prop::sample::Index>()), 0..60),
        ) {
            let mut slice = EndianSlice::new(&contents, LittleEndian);
            let [mut file, mut memory] = both(&contents, 1 << 24);
            for (what, index) in steps {
                let by = index.index(2 * PAGE);
                macro_rules! same {
                    ($read:expr) => {{
                        let expected = $read(&mut slice).ok();
                        assert_eq!(expected, $read(&mut file).ok());
                        assert_eq!(expected, $read(&mut memory).ok());
                        // After an error gimli does not read on.
                        if expected.is_none() {
                            break;
                        }
                    }};
                }
                match what {
                    0 => same!(|it: &mut _| Reader::read_u8(it)),
                    1 => same!(|it: &mut _| Reader::read_u16(it)),
                    2 => same!(|it: &mut _| Reader::read_u64(it)),
                    3 => same!(|it: &mut _| Reader::read_uleb128(it)),
                    4 => same!(|it: &mut _| Reader::find(it, 3)),
                    5 => same!(|it: &mut _| text(it, by)),
                    6 => same!(|it: &mut _| part(it, by / 8)),
                    _ => same!(|it: &mut _| Reader::skip(it, by / 8)),
                }
                assert_eq!(slice.len(), file.len());
            }
        }
    }
}
