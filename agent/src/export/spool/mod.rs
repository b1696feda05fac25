//! Queue on disk of payloads that are not delivered yet.
//!
//! Each payload is a file; numbers in the names keep the order. Nothing is synchronized: a process
//! that is killed loses nothing, and a power failure may damage the files of the last seconds, which
//! is detected when they are read.
//!
//! Invariants: the files never take more than the limit; the oldest payloads are dropped, and their
//! number is returned; files with other names are left alone.

mod record;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, io, path::PathBuf};

pub(super) use self::record::PayloadFormat;
use super::batch::Payload;
use crate::store::folder::{Folder, FolderLock, bytes_on_disk, is_full, is_transient};

/// Number of the first payload in an empty spool: numbers can grow and shrink from it.
const FIRST_NUMBER: u64 = 1 << 40;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Suffix of the file names.
const SUFFIX: &str = ".parcel";

/// Locked by the process that uses the folder.
const LOCK_FILE: &str = "lock";

/// Configuration of a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolConfig {
    /// Folder of this destination alone; created if missing.
    pub folder: PathBuf,
    /// Most disk space, in bytes.
    pub max_bytes: u64,
}

/// Why a spool cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The folder cannot be used.
    #[error("cannot use '{}' as a spool ({source})", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Error of the operation.
        source: io::Error,
    },
    /// The folder is in use.
    #[error("the spool in '{}' is in use by another agent or another exporter", folder.display())]
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
    /// Oldest first.
    items: VecDeque<SpooledFile>,
    /// Disk space of all files.
    bytes: u64,
    /// Number of the next payload.
    next: u64,
    /// Whether the oldest is being delivered; it is not dropped meanwhile.
    front_is_held: bool,
    /// Locked as long as the spool is open.
    _lock: FolderLock,
}

/// File of one payload.
#[derive(Clone, Copy, Debug)]
struct SpooledFile {
    number: u64,
    /// Disk space.
    bytes: u64,
}

/// The oldest payload.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// The spool is empty.
    Empty,
    Payload(Payload),
    /// The file is damaged or unreadable, and was removed.
    Torn,
    /// The file cannot be read at present: the process or the machine is short of a resource.
    Unreadable,
}

impl Spool {
    /// Opens a spool with the payloads of an earlier run. Returns how many were dropped for the limit.
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

    /// Number of payloads.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Disk space of all payloads, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the oldest payload, which is held until [`Self::remove_front`] or
    /// [`Self::release_front`].
    pub(super) fn hold_front(&mut self) -> Front {
        let Some(item) = self.items.front() else {
            return Front::Empty;
        };
        let bytes = self.folder.read(&name_of(item.number), MAX_FILE_BYTES);
        if bytes.as_ref().is_err_and(is_transient) {
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

    /// Releases the oldest payload, which was not delivered.
    pub(super) fn release_front(&mut self) {
        self.front_is_held = false;
    }

    /// Removes the oldest payload.
    pub(super) fn remove_front(&mut self) {
        self.front_is_held = false;
        self.remove(0);
    }

    /// Adds the newest payload. Returns how many were dropped for it.
    ///
    /// # Errors
    ///
    /// With the number dropped before the error.
    pub(super) fn push_back(&mut self, payload: &Payload) -> Result<u64, (u64, io::Error)> {
        let bytes = self.size(payload).map_err(|error| (0, error))?;
        let mut dropped = self.make_room(bytes);
        if let Err(error) = self.write(self.next, payload) {
            // Other programs filled the disk. Drop as much of the oldest as the new one needs, and
            // nothing if even all of it would not suffice.
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

    /// Adds a payload that is older than all others. Returns how many were dropped: 1, which is the
    /// payload itself, if there is no room.
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

    /// Disk space of a payload, in bytes; an error if it exceeds the limit.
    fn size(&self, payload: &Payload) -> io::Result<u64> {
        let length = record::HEADER_BYTES + payload.name.len() + payload.body.len();
        let bytes = bytes_on_disk(length as u64);
        if bytes > self.max_bytes || bytes > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn write(&self, number: u64, payload: &Payload) -> io::Result<()> {
        let header = record::header(self.format, payload);
        let parts: [&[u8]; 3] = [&header, payload.name.as_bytes(), &payload.body];
        self.folder.write(&name_of(number), &parts, 0o600)
    }

    /// Drops the oldest until `bytes` more are within the limit. Returns how many.
    fn make_room(&mut self, bytes: u64) -> u64 {
        let mut dropped = 0;
        while self.bytes.saturating_add(bytes) > self.max_bytes && self.drop_oldest() {
            dropped += 1;
        }
        dropped
    }

    /// Disk space of the payloads that are not held, in bytes.
    fn droppable_bytes(&self) -> u64 {
        let held = self.items.front().filter(|_| self.front_is_held);
        self.bytes - held.map_or(0, |item| item.bytes)
    }

    /// Drops the oldest that is not held, if there is one.
    fn drop_oldest(&mut self) -> bool {
        self.remove(usize::from(self.front_is_held))
    }

    /// Removes a payload, if there is one. If its file cannot be removed, the next run finds it again.
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
    format!("{number:016x}{SUFFIX}")
}

/// The number in a name; [`None`] for a name that no spool creates.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    // The bounds leave room to count up and down.
    let is_valid = (1..FIRST_NUMBER * 2).contains(&number) && name_of(number) == name;
    is_valid.then_some(number)
}
