//! Addresses → functions, also inlined ones, files and lines, from debugging information.
//!
//! gimli understands the format. What is looked for and what is kept of it is decided here, not by
//! addr2line, which recurses as deep as the file says, so that 100 KB of it end the process, and
//! keeps all that it has read.
//!
//! Invariants: the file is untrusted: nothing in it makes this panic or recurse; what is read for
//! one address is bounded, and a file for which that was not enough is not asked again; between
//! look-ups not much more is kept than was asked for.
//!
//! Not understood: split DWARF (`.dwo`), of which lines are known, but not what was inlined.

mod bytes;
mod functions;
mod index;
mod lines;
mod scopes;
mod sections;
mod session;
mod unit;

use std::ops::Range;

use crate::elf::{Elf, Shared};
use index::Index;
use session::Session;

/// Most bytes of debugging information in memory at once.
const MAX_RESIDENT: usize = 128 << 20;

/// Most bytes that are read for one address.
const MAX_READ: u64 = 1 << 30;

/// Most entries, attributes, ranges and lines that are looked at for one address.
const MAX_WORK: u64 = 1 << 26;

/// Why debugging information did not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Error {
    /// It could not be read.
    Unreadable,
    /// It makes no sense.
    Malformed,
    /// It is more than what is read.
    TooLarge,
}

impl From<gimli::Error> for Error {
    fn from(error: gimli::Error) -> Self {
        match error {
            gimli::Error::Io => Self::Unreadable,
            _ => Self::Malformed,
        }
    }
}

/// What may still be looked at.
struct Work(u64);

impl Work {
    fn spend(&mut self, amount: usize) -> Result<(), Error> {
        let left = self.0.checked_sub(amount as u64);
        self.0 = left.ok_or(Error::TooLarge)?;
        Ok(())
    }
}

/// The files that debugging information is in.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) main: &'a Elf<Shared>,
    /// What several files share.
    pub(super) shared: Option<&'a Elf<Shared>>,
}

/// A function at an address, and where in it that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// The name of its symbol, else that in the source.
    pub(super) name: Option<Vec<u8>>,
    /// Path of the source.
    pub(super) file: Option<Vec<u8>>,
    /// 0 where there is none.
    pub(super) line: u32,
    /// First line of the function, 0 where it is not known.
    pub(super) first_line: u32,
}

/// The debugging information of a file.
pub(super) struct DebugInfo {
    /// Where the code of the file is.
    code: Range<u64>,
    index: Option<Index>,
    session: Option<Session>,
    /// Bytes from which on what was read is let go.
    most_kept: usize,
    failed: Option<Error>,
}

impl DebugInfo {
    pub(super) fn new(code: Range<u64>, most_kept: usize) -> Self {
        Self {
            code,
            index: None,
            session: None,
            most_kept,
            failed: None,
        }
    }

    /// The functions at `address`, the innermost first; none where nothing is known.
    pub(super) fn find(&mut self, files: &Files<'_>, address: u64) -> Vec<Level> {
        if self.failed.is_some() {
            return Vec::new();
        }
        self.look_up(files, address).unwrap_or_else(|error| {
            self.failed = Some(error);
            self.index = None;
            self.session = None;
            Vec::new()
        })
    }

    fn look_up(&mut self, files: &Files<'_>, address: u64) -> Result<Vec<Level>, Error> {
        let mut work = Work(MAX_WORK);
        let index = match &mut self.index {
            Some(index) => index,
            empty => {
                let open = |meter: &_| sections::open(files.main, meter);
                empty.insert(Index::read(open, &self.code, &mut work)?)
            }
        };
        let session = match &mut self.session {
            Some(session) if session.bytes() <= self.most_kept => session,
            session => {
                *session = None;
                session.insert(Session::open(files, &mut work)?)
            }
        };
        session.find(index, &self.code, address, &mut work)
    }

    /// Why it does not tell anything any more.
    pub(super) fn failed(&self) -> Option<Error> {
        self.failed
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let index = self.index.as_ref().map_or(0, Index::bytes);
        index + self.session.as_ref().map_or(0, Session::bytes)
    }

    /// Lets go of what can be read again.
    pub(super) fn shrink(&mut self) {
        self.session = None;
    }
}
