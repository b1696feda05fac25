//! Counters of an exporter, which become metrics.
//!
//! Invariant: `accepted + recovered == delivered + dropped.total() + queued.total()` whenever they
//! are read, so nothing is lost without being counted.

/// Counters of one exporter since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches handed to the exporter.
    pub accepted: u64,
    /// Payloads of an earlier run, found in the spool.
    pub recovered: u64,
    /// Batches that the destination accepted.
    pub delivered: u64,
    /// Their size as sent, in bytes.
    pub delivered_bytes: u64,
    /// Delivered batches of which the destination rejected a part.
    pub partly_rejected: u64,
    /// Delivery attempts.
    pub attempts: u64,
    /// Batches not delivered yet.
    pub queued: QueueLengths,
    /// Batches dropped.
    pub dropped: Dropped,
    /// Failed delivery attempts.
    pub failures: Failures,
    /// Failed writes to the spool and reads from it; what cannot be written stays in memory.
    pub spool_failures: u64,
    /// Delivered batches that were removed because the disk was full.
    pub removed_disk_full: u64,
}

/// Batches not delivered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLengths {
    /// In memory, those being sent included.
    pub memory: u64,
    /// In the spool.
    pub spool: u64,
    /// Disk space that the spool uses, in bytes.
    pub spool_bytes: u64,
}

/// Why a batch is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// The queue in memory was full.
    QueueFull,
    /// The spool was full.
    SpoolFull,
    /// Its file in the spool is damaged or unreadable.
    SpoolTorn,
    /// The destination rejects it permanently.
    Rejected,
    /// It exceeds the limit of the destination.
    TooLarge,
    /// The destination does not implement the request.
    Unsupported,
    /// It failed until `max_elapsed`.
    GivenUp,
    /// It could not be encoded.
    Unencodable,
    /// The agent stopped first, and no spool had room for it.
    ShutDown,
}

/// Dropped batches, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The queue in memory was full; the oldest is dropped.
    pub queue_full: u64,
    /// The spool was full; the oldest is dropped.
    pub spool_full: u64,
    /// Its file in the spool is damaged or unreadable.
    pub spool_torn: u64,
    /// The destination rejects it permanently.
    pub rejected: u64,
    /// It exceeds the limit of the destination.
    pub too_large: u64,
    /// The destination does not implement the request: most likely its address is wrong.
    pub unsupported: u64,
    /// It failed until `max_elapsed`.
    pub given_up: u64,
    /// It could not be encoded.
    pub unencodable: u64,
    /// The agent stopped first, and no spool had room for it.
    pub shut_down: u64,
}

/// Failed delivery attempts, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// No connection.
    pub unreachable: u64,
    /// TLS handshake failed, or a certificate was rejected.
    pub tls: u64,
    /// No response in time.
    pub timed_out: u64,
    /// The connection was closed before the response was complete.
    pub connection_closed: u64,
    /// The destination reported an internal error.
    pub server_error: u64,
    /// The destination, or a proxy before it, reports that it is unavailable.
    pub unavailable: u64,
    /// The destination limits the rate.
    pub throttled: u64,
    /// The credentials were rejected.
    pub unauthorized: u64,
    /// The credentials cannot be read.
    pub credentials: u64,
    /// A disk error, or the disk is full.
    pub disk: u64,
    /// The destination rejects it permanently.
    pub rejected: u64,
    /// It exceeds the limit of the destination.
    pub too_large: u64,
    /// The destination does not implement the request.
    pub unsupported: u64,
}

impl QueueLengths {
    #[cfg(test)]
    pub(super) fn total(self) -> u64 {
        self.memory + self.spool
    }
}

impl Failures {
    /// Pairs of reason and count.
    #[must_use]
    pub fn by_reason(self) -> [(&'static str, u64); 13] {
        let Self {
            unreachable,
            tls,
            timed_out,
            connection_closed,
            server_error,
            unavailable,
            throttled,
            unauthorized,
            credentials,
            disk,
            rejected,
            too_large,
            unsupported,
        } = self;
        [
            ("unreachable", unreachable),
            ("tls", tls),
            ("timed_out", timed_out),
            ("connection_closed", connection_closed),
            ("server_error", server_error),
            ("unavailable", unavailable),
            ("throttled", throttled),
            ("unauthorized", unauthorized),
            ("credentials", credentials),
            ("disk", disk),
            ("rejected", rejected),
            ("too_large", too_large),
            ("unsupported", unsupported),
        ]
    }
}

impl Dropped {
    pub(super) fn add(&mut self, reason: DropReason, count: u64) {
        *match reason {
            DropReason::QueueFull => &mut self.queue_full,
            DropReason::SpoolFull => &mut self.spool_full,
            DropReason::SpoolTorn => &mut self.spool_torn,
            DropReason::Rejected => &mut self.rejected,
            DropReason::TooLarge => &mut self.too_large,
            DropReason::Unsupported => &mut self.unsupported,
            DropReason::GivenUp => &mut self.given_up,
            DropReason::Unencodable => &mut self.unencodable,
            DropReason::ShutDown => &mut self.shut_down,
        } += count;
    }

    /// Pairs of reason and count.
    #[must_use]
    pub fn by_reason(self) -> [(&'static str, u64); 9] {
        let Self {
            queue_full,
            spool_full,
            spool_torn,
            rejected,
            too_large,
            unsupported,
            given_up,
            unencodable,
            shut_down,
        } = self;
        [
            ("queue_full", queue_full),
            ("spool_full", spool_full),
            ("spool_torn", spool_torn),
            ("rejected", rejected),
            ("too_large", too_large),
            ("unsupported", unsupported),
            ("given_up", given_up),
            ("unencodable", unencodable),
            ("shut_down", shut_down),
        ]
    }

    #[must_use]
    pub fn total(self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}
