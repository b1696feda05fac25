//! Sections of debugging information, of which only what is needed is in memory.
//!
//! Invariants: a page is read when something in it is asked for; not more of them are kept than
//! the [`Meter`] allows, and not more is read in one look-up; a string has an end within
//! [`MAX_STRING`] bytes.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use gimli::{Error, LittleEndian, Reader, ReaderOffsetId, Result};
use memchr::memchr;

use crate::binaries::elf::{Shared, Source as _};

/// Bytes of a page.
const PAGE: usize = 8 << 10;

/// Bytes after which reading is counted.
const COUNTED: usize = 256;

/// Most bytes of a string.
const MAX_STRING: usize = 64 << 10;

/// What was read of the sections of a file.
#[derive(Debug)]
pub(super) struct Meter {
    /// Bytes in memory.
    resident: AtomicUsize,
    /// The bound of that.
    most_resident: usize,
    /// Bytes that may still be read in this look-up.
    left: AtomicU64,
}

impl Meter {
    pub(super) fn new(most_resident: usize) -> Self {
        Self {
            resident: AtomicUsize::new(0),
            most_resident,
            left: AtomicU64::new(0),
        }
    }

    /// Allows `bytes` bytes to be read.
    pub(super) fn allow(&self, bytes: u64) {
        self.left.store(bytes, Relaxed);
    }

    /// Whether more was asked for than is allowed.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left.load(Relaxed) == 0 || self.resident() >= self.most_resident
    }

    /// Bytes in memory.
    pub(super) fn resident(&self) -> usize {
        self.resident.load(Relaxed)
    }

    /// Bytes that may still be kept in memory.
    pub(super) fn room(&self) -> u64 {
        self.most_resident.saturating_sub(self.resident()) as u64
    }

    /// Counts `bytes` bytes that are in memory from now on.
    fn keep(&self, bytes: usize) -> Result<()> {
        // Only one thread reads at a time.
        let resident = self.resident().saturating_add(bytes);
        self.resident.store(resident, Relaxed);
        if resident < self.most_resident {
            Ok(())
        } else {
            Err(Error::Io)
        }
    }

    fn spend(&self, bytes: usize) -> Result<()> {
        let left = self.left.load(Relaxed).saturating_sub(bytes as u64);
        self.left.store(left, Relaxed);
        if left == 0 { Err(Error::Io) } else { Ok(()) }
    }
}

/// A section.
pub(super) struct PagedSection {
    /// Tells it from the other sections.
    id: u64,
    bytes: usize,
    storage: Storage,
    meter: Arc<Meter>,
}

enum Storage {
    /// What was compressed.
    Memory(Vec<u8>),
    File {
        source: Shared,
        offset: u64,
        pages: Box<[OnceLock<Box<[u8]>>]>,
    },
}

impl PagedSection {
    /// One that is in memory.
    pub(super) fn in_memory(id: u64, contents: Vec<u8>, meter: Arc<Meter>) -> Result<Self> {
        meter.keep(contents.len())?;
        Ok(Self {
            id,
            bytes: contents.len(),
            storage: Storage::Memory(contents),
            meter,
        })
    }

    /// One that is in a file, `bytes` bytes from `offset` on.
    pub(super) fn in_file(
        id: u64,
        source: Shared,
        (offset, bytes): (u64, u64),
        meter: Arc<Meter>,
    ) -> Result<Self> {
        // No memory for what is not there.
        let available = source.bytes().map_err(|_| Error::Io)?;
        let bytes = bytes.min(available.saturating_sub(offset));
        let bytes = usize::try_from(bytes).map_err(|_| Error::Io)?;
        let pages = bytes.div_ceil(PAGE);
        meter.keep(pages * size_of::<OnceLock<Box<[u8]>>>())?;
        Ok(Self {
            id,
            bytes,
            storage: Storage::File {
                source,
                offset,
                pages: (0..pages).map(|_| OnceLock::new()).collect(),
            },
            meter,
        })
    }

    /// What is at `start`, up to the end of a page.
    #[inline]
    fn at(&self, start: usize) -> Result<&[u8]> {
        let page = match &self.storage {
            Storage::Memory(contents) => contents.get(start..),
            Storage::File { pages, .. } => match pages.get(start / PAGE).and_then(OnceLock::get) {
                Some(page) => page.get(start % PAGE..),
                None => self.read(start / PAGE)?.get(start % PAGE..),
            },
        };
        page.ok_or(Error::Io)
    }

    /// Reads a page.
    #[cold]
    fn read(&self, index: usize) -> Result<&[u8]> {
        let Storage::File {
            source,
            offset,
            pages,
        } = &self.storage
        else {
            return Err(Error::Io);
        };
        let cell = pages.get(index).ok_or(Error::Io)?;
        let start = index * PAGE;
        let mut page = vec![0; PAGE.min(self.bytes - start)].into_boxed_slice();
        self.meter.keep(page.len())?;
        let from = offset.checked_add(start as u64).ok_or(Error::Io)?;
        source.fill(&mut page, from).map_err(|_| Error::Io)?;
        Ok(cell.get_or_init(|| page))
    }
}

impl fmt::Debug for PagedSection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "section {} of {} bytes", self.id, self.bytes)
    }
}

/// A part of a section.
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

    /// What it holds, up to `most` bytes of it.
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

    /// Fills `into` with what is at the start, when that spans pages.
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
    use super::{Meter, PAGE, PagedSection, SectionReader};
    use crate::binaries::elf::Shared;
    use gimli::{EndianSlice, LittleEndian, Reader};
    use proptest::prelude::{any, prop, proptest};
    use std::sync::Arc;

    /// The same bytes in a file and in memory.
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
    fn only_what_is_needed_is_read() {
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
    fn bounds_are_kept() {
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
        fn it_reads_as_a_slice_does(
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
                        // After a failure gimli does not read on.
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
