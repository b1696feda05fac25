//! The ring buffer: records of the BPF programs, in the order in which they were sent.

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{error::Error, maps};

/// Written by the BPF programs, read by the agent. What finds it full is counted and dropped.
const RECORDS: &str = "RECORDS";

/// The reader's end of the ring buffer.
pub(super) struct Ring(AsyncFd<RingBuf<MapData>>);

impl Ring {
    /// Must be called within a tokio runtime.
    pub(super) fn take(object: &mut Ebpf) -> Result<Self, Error> {
        let ring: RingBuf<MapData> = maps::take(object, RECORDS)?;
        // SAFETY: the ring buffer owns its descriptor and keeps it open and the same.
        unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }
            .map(Self)
            .map_err(|error| Error::System {
                call: "poll the ring buffer",
                source: error.into(),
            })
    }

    /// Waits until the BPF programs wake the reader, because much is waiting.
    pub(super) async fn readable(&self) -> Result<(), Error> {
        let mut guard = self.0.readable().await.map_err(|source| Error::System {
            call: "poll the ring buffer",
            source,
        })?;
        guard.clear_ready();
        Ok(())
    }

    /// Passes each waiting record to `take`.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let ring = self.0.get_mut();
        while let Some(record) = ring.next() {
            take(&record);
        }
    }
}
