//! What a destination has not taken yet, on disk.
//!
//! Each payload is a file; numbers in the names keep the order. Nothing is synchronized: a process
//! that is killed loses nothing, and a machine that loses its power may tear the files of the last
//! seconds, which is noticed when they are read.
//!
//! Invariants: the files never take more than the limit; what is given up is the oldest, and is
//! told to the caller; files of other names are left alone.

mod record;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, io, path::PathBuf};

pub(super) use self::record::PayloadFormat;
use super::batch::Payload;
use crate::store::folder::{Folder, FolderLock, bytes_on_disk, is_full, is_passing};

/// Number of the first payload in an empty spool: there is room on both sides of it.
const FIRST_NUMBER: u64 = 1 << 40;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// How names end.
const ENDING: &str = ".parcel";

/// Taken by whoever uses the folder.
const LOCK_FILE: &str = "lock";

/// Where what a destination has not taken yet is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolConfig {
    /// A folder for this destination alone; it is created when it is not there.
    pub folder: PathBuf,
    /// Most that it may take of its disk, in bytes.
    pub max_bytes: u64,
}

/// Why there is no spool.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The folder cannot be used.
    #[error("cannot keep a spool in '{}' ({source})", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The folder is used already.
    #[error("the spool in '{}' is another agent's or another destination's", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
}

/// An open spool.
#[derive(Debug)]
pub(super) struct Spool {
    folder: Folder,
    format: PayloadFormat,
    max_bytes: u64,
    /// The oldest first.
    items: VecDeque<SpooledFile>,
    /// Sum of the items' sizes.
    bytes: u64,
    /// Number of the next payload.
    next: u64,
    /// Whether the oldest is being delivered; it is not given up meanwhile.
    front_is_held: bool,
    /// InHand for as long as the spool is.
    _lock: FolderLock,
}

/// A file.
#[derive(Clone, Copy, Debug)]
struct SpooledFile {
    number: u64,
    /// What it takes of the disk.
    bytes: u64,
}

/// What is next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// There is nothing.
    Empty,
    /// The oldest payload.
    Payload(Payload),
    /// The oldest was torn or could not be read; it is gone.
    Torn,
    /// The oldest cannot be read at present.
    Unreadable,
}

impl Spool {
    /// Opens a spool with what an earlier run left in it, and gives how many payloads had to go for
    /// the limit.
    pub(super) fn open(
        config: &SpoolConfig,
        format: PayloadFormat,
    ) -> Result<(Self, u64), SpoolError> {
        let failed = |source| SpoolError::Folder {
            folder: config.folder.clone(),
            source,
        };
        let folder = Folder::open(&config.folder).map_err(failed)?;
        let lock = folder
            .lock(LOCK_FILE)
            .map_err(|source| match source.kind() {
                io::ErrorKind::WouldBlock => SpoolError::Locked {
                    folder: config.folder.clone(),
                },
                _ => failed(source),
            })?;
        let mut items: Vec<_> = folder
            .entries(|name| number_of(name).is_some())
            .map_err(failed)?
            .into_iter()
            .filter_map(|entry| {
                Some(SpooledFile {
                    number: number_of(&entry.name)?,
                    bytes: entry.bytes,
                })
            })
            .collect();
        items.sort_by_key(|item| item.number);
        let mut spool = Self {
            folder,
            format,
            max_bytes: config.max_bytes,
            bytes: items.iter().map(|item| item.bytes).sum(),
            next: items.last().map_or(FIRST_NUMBER, |item| item.number + 1),
            items: items.into(),
            front_is_held: false,
            _lock: lock,
        };
        let dropped = spool.make_room(0);
        Ok((spool, dropped))
    }

    /// How many payloads there are.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// What they take of the disk, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest payload, which stays and is held until [`Self::remove_front`] or
    /// [`Self::release_front`].
    pub(super) fn hold_front(&mut self) -> Front {
        let Some(item) = self.items.front() else {
            return Front::Empty;
        };
        let bytes = self.folder.read(&name_of(item.number), MAX_FILE_BYTES);
        if bytes.as_ref().is_err_and(is_passing) {
            return Front::Unreadable;
        }
        let payload = bytes
            .ok()
            .and_then(|bytes| record::parse(self.format, &bytes).ok());
        if let Some(payload) = payload {
            self.front_is_held = true;
            return Front::Payload(payload);
        }
        self.remove_front();
        Front::Torn
    }

    /// The oldest payload was not delivered, and stays.
    pub(super) fn release_front(&mut self) {
        self.front_is_held = false;
    }

    /// Removes the oldest payload.
    pub(super) fn remove_front(&mut self) {
        self.front_is_held = false;
        self.remove(0);
    }

    /// Adds the newest payload, and gives how many had to go for it.
    ///
    /// # Errors
    ///
    /// With how many had to go all the same.
    pub(super) fn push_back(&mut self, payload: &Payload) -> Result<u64, (u64, io::Error)> {
        let bytes = self.size(payload).map_err(|error| (0, error))?;
        let mut dropped = self.make_room(bytes);
        if let Err(error) = self.write(self.next, payload) {
            // Others have filled the disk. What is newer is worth more, but only as much of what is
            // old is given up for it as it needs, and nothing when even all would not do.
            if !is_full(&error) || self.droppable_bytes() < bytes {
                return Err((dropped, error));
            }
            let wanted = self.bytes - bytes;
            while self.bytes > wanted && self.drop_oldest() {
                dropped += 1;
            }
            self.write(self.next, payload)
                .map_err(|error| (dropped, error))?;
        }
        self.items.push_back(SpooledFile {
            number: self.next,
            bytes,
        });
        self.bytes += bytes;
        self.next += 1;
        Ok(dropped)
    }

    /// Adds a payload that is older than all there are, and gives how many had to go for it: itself,
    /// when there is no room.
    pub(super) fn push_front(&mut self, payload: &Payload) -> Result<u64, (u64, io::Error)> {
        let Some(front) = self.items.front() else {
            return self.push_back(payload);
        };
        let number = front.number.saturating_sub(1);
        let bytes = self.size(payload).map_err(|error| (0, error))?;
        if self.bytes.saturating_add(bytes) > self.max_bytes {
            return Ok(1);
        }
        self.write(number, payload).map_err(|error| (0, error))?;
        self.items.push_front(SpooledFile { number, bytes });
        self.bytes += bytes;
        Ok(0)
    }

    /// What a payload takes of the disk, in bytes, when it can be kept at all.
    fn size(&self, payload: &Payload) -> io::Result<u64> {
        let length = record::HEAD_BYTES + payload.name.len() + payload.body.len();
        let bytes = bytes_on_disk(length as u64);
        if bytes > self.max_bytes || bytes > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn write(&self, number: u64, payload: &Payload) -> io::Result<()> {
        let head = record::head(self.format, payload);
        let parts: [&[u8]; 3] = [&head, payload.name.as_bytes(), &payload.body];
        self.folder.write(&name_of(number), &parts, 0o600)
    }

    /// Gives up the oldest until `bytes` more are within the limit, and tells how many.
    fn make_room(&mut self, bytes: u64) -> u64 {
        let mut dropped = 0;
        while self.bytes.saturating_add(bytes) > self.max_bytes && self.drop_oldest() {
            dropped += 1;
        }
        dropped
    }

    /// What those take of the disk that are not held, in bytes.
    fn droppable_bytes(&self) -> u64 {
        let held = self.items.front().filter(|_| self.front_is_held);
        self.bytes - held.map_or(0, |item| item.bytes)
    }

    /// Gives up the oldest that is not held, if there is one.
    fn drop_oldest(&mut self) -> bool {
        self.remove(usize::from(self.front_is_held))
    }

    /// Removes a payload, if there is one. It is not told of again even where the disk does not let
    /// go of it; the next run finds it then.
    fn remove(&mut self, index: usize) -> bool {
        let Some(item) = self.items.remove(index) else {
            return false;
        };
        self.bytes -= item.bytes;
        let _ = self.folder.remove(&name_of(item.number));
        true
    }
}

fn name_of(number: u64) -> String {
    format!("{number:016x}{ENDING}")
}

/// The number in a name; none in one that no spool would give.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ENDING)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    // With the bounds, numbers can be counted up and down for ever.
    let is_given = (1..FIRST_NUMBER * 2).contains(&number) && name_of(number) == name;
    is_given.then_some(number)
}
