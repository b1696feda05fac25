//! The ring buffer: records of the BPF programs, in the order in which they were sent.

use std::{os::fd::AsFd, time::Duration};

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
};
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    fd::OwnedFd,
    io::Errno,
};

use super::{error::Error, maps};

/// Written by the BPF programs, read by the agent. What finds it full is counted and dropped.
const RECORDS: &str = "RECORDS";

/// The reader's end of the ring buffer.
///
/// Only a wake-up of the BPF programs ends [`Self::wait`], not what is there already.
pub struct Ring {
    ring: RingBuf<MapData>,
    epoll: OwnedFd,
}

impl Ring {
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, Error> {
        let ring: RingBuf<MapData> = maps::take(object, RECORDS)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        // Edge-triggered: there are nearly always some records, but few that must be read now.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &ring, EventData::new_u64(0), flags).map_err(failed)?;
        Ok(Self { ring, epoll })
    }

    /// Has [`Self::wait`] end when `waker` is readable.
    ///
    /// # Errors
    ///
    /// When the kernel refuses it.
    pub fn add_waker(&self, waker: impl AsFd) -> Result<(), Error> {
        epoll::add(&self.epoll, waker, EventData::new_u64(1), EventFlags::IN).map_err(failed)
    }

    /// Waits until the BPF programs wake the reader because much is waiting, until the waker is
    /// readable, or for `time`.
    ///
    /// # Errors
    ///
    /// When the ring buffer cannot be polled.
    pub fn wait(&self, time: Duration) -> Result<(), Error> {
        let time = Timespec::try_from(time).unwrap_or_default();
        let mut events = Vec::with_capacity(2);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&time)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Passes waiting records to `take`, until there are none or `take` returns false.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8]) -> bool) {
        while let Some(record) = self.ring.next() {
            if !take(&record) {
                break;
            }
        }
    }
}

fn failed(errno: Errno) -> Error {
    Error::System {
        call: "poll the ring buffer",
        source: errno.into(),
    }
}
