//! Reading through large parts of a file, in pieces of bounded size.

use super::{error::Error, file::Elf, numbers::at_most, segments::Segment, source::Source};

/// Most addresses at which a word is found.
const MAX_FOUND: usize = 16;

impl<S: Source> Elf<S> {
    /// Calls `look` with the contents of the section `name` in pieces, each of which starts with the
    /// last `overlap` bytes of the one before; stops after `limit` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn scan_section(
        &self,
        name: &str,
        overlap: usize,
        limit: u64,
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let place = self
            .section(name)
            .and_then(|section| Some((section.file_offset?, section.bytes)));
        match place {
            Some((start, bytes)) => {
                self.scan(start, bytes.min(limit), overlap, |_, piece| look(piece))
            }
            None => Ok(()),
        }
    }

    /// Calls `look` with the whole file in pieces.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or has more than `limit` bytes.
    pub fn scan_all(&self, limit: u64, mut look: impl FnMut(&[u8])) -> Result<(), Error> {
        let bytes = self.size()?;
        if bytes > limit {
            let what = "file";
            return Err(Error::TooLarge { what, bytes, limit });
        }
        self.scan(0, bytes, 0, |_, piece| look(piece))
    }

    /// Calls `look` with the read-only segments in pieces, as [`Self::scan_section`] does.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn scan_constants(
        &self,
        overlap: usize,
        mut limit: u64,
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        for segment in self.segments.iter().filter(|segment| !segment.is_writable) {
            let bytes = segment.file_bytes.min(limit);
            self.scan(segment.file_offset, bytes, overlap, |_, piece| look(piece))?;
            limit -= bytes;
        }
        Ok(())
    }

    /// The addresses, multiples of eight, of `word` in writable data before relocation; at most 16,
    /// in the first `limit` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn find_in_data(&self, word: [u8; 8], limit: u64) -> Result<Vec<u64>, Error> {
        self.find_words(limit, |segment| segment.is_writable, |it| it == word)
    }

    /// The addresses, multiples of eight, of words that `is_wanted` outside of code; at most 16, in
    /// the first `limit` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn find_outside_code(
        &self,
        limit: u64,
        is_wanted: impl Fn([u8; 8]) -> bool,
    ) -> Result<Vec<u64>, Error> {
        self.find_words(limit, |segment| !segment.is_executable, is_wanted)
    }

    fn find_words(
        &self,
        mut limit: u64,
        is_searched: impl Fn(&Segment) -> bool,
        is_wanted: impl Fn([u8; 8]) -> bool,
    ) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        for segment in self.segments.iter().filter(|segment| is_searched(segment)) {
            let skipped = segment.address.wrapping_neg() & 7;
            let bytes = segment.file_bytes.saturating_sub(skipped).min(limit);
            let start = segment.file_offset.saturating_add(skipped);
            self.scan(start, bytes, 0, |into, piece| {
                let (words, _) = piece.as_chunks();
                let matching = words.iter().enumerate().filter(|(_, it)| is_wanted(**it));
                let address = |index: usize| {
                    let into = skipped + into + 8 * index as u64;
                    segment.address.wrapping_add(into)
                };
                let room = MAX_FOUND - found.len();
                found.extend(matching.take(room).map(|(index, _)| address(index)));
            })?;
            limit -= bytes;
        }
        Ok(found)
    }

    /// Calls `look` with the offset from `start` and the bytes of each piece.
    pub(super) fn scan(
        &self,
        start: u64,
        bytes: u64,
        overlap: usize,
        mut look: impl FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        const PIECE: usize = 64 << 10;
        let mut piece = vec![0; PIECE];
        let mut kept = 0;
        let mut done = 0;
        while done < bytes {
            let fresh = at_most(bytes - done, PIECE - kept);
            let end = kept + fresh;
            self.fill(&mut piece[kept..end], start.saturating_add(done))?;
            look(done - kept as u64, &piece[..end]);
            done += fresh as u64;
            let keep = overlap.min(end);
            piece.copy_within(end - keep..end, 0);
            kept = keep;
        }
        Ok(())
    }
}
