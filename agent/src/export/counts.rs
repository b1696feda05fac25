//! What became of batches, for whoever publishes metrics.
//!
//! Invariant: `accepted + found == delivered + dropped.total() + queued.total()` whenever counts
//! are read, so that nothing is lost without being counted.

/// The numbers of one exporter since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches that were handed over.
    pub accepted: u64,
    /// Payloads of an earlier run that the spool still had.
    pub found: u64,
    /// Batches that the destination has taken.
    pub delivered: u64,
    /// Their size as it was sent, in bytes.
    pub delivered_bytes: u64,
    /// Of the delivered ones, those of which the destination said that it took only a part.
    pub partly_rejected: u64,
    /// Attempts to deliver one.
    pub attempts: u64,
    /// Batches that wait for their turn.
    pub queued: QueueLengths,
    /// Batches that were given up.
    pub dropped: Dropped,
    /// Attempts that failed.
    pub failures: Failures,
    /// Attempts to write to the spool or to read from it that failed; what could not be written
    /// stays in memory.
    pub spool_failures: u64,
}

/// Batches that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLengths {
    /// In memory, the one that is being sent included.
    pub memory: u64,
    /// In the spool.
    pub spool: u64,
    /// What the spool takes of its disk, in bytes.
    pub spool_bytes: u64,
}

/// Why batches were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    /// The queue in memory was full.
    QueueFull,
    /// The spool was full.
    SpoolFull,
    /// The spool's file of it was torn, or could not be read.
    SpoolTorn,
    /// The destination will never take it.
    Rejected,
    /// It is too large for the destination.
    TooLarge,
    /// The destination does not know the request at all.
    Unsupported,
    /// The destination failed over it for too long.
    GivenUp,
    /// It could not be encoded.
    Unencodable,
    /// The agent ended first, and there was no spool that could keep it.
    ShutDown,
}

/// Batches that were given up, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The queue in memory was full; the oldest goes first.
    pub queue_full: u64,
    /// The spool was full; the oldest goes first.
    pub spool_full: u64,
    /// The spool's file of it was torn, or could not be read.
    pub spool_torn: u64,
    /// The destination said that it will never take it.
    pub rejected: u64,
    /// It is too large for the destination.
    pub too_large: u64,
    /// The destination does not know the request at all: most likely its address is wrong.
    pub unsupported: u64,
    /// The destination answered with an error, or cut the connection, over and over.
    pub given_up: u64,
    /// It could not be encoded.
    pub unencodable: u64,
    /// The agent ended first, and there was no spool that could keep it.
    pub shut_down: u64,
}

/// Attempts that failed, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// There was no connection to be had.
    pub unreachable: u64,
    /// There was no agreement on TLS, or a certificate was refused.
    pub tls: u64,
    /// There was no response in time.
    pub timed_out: u64,
    /// The connection ended before the response did.
    pub cut: u64,
    /// The destination failed inside.
    pub server_error: u64,
    /// The destination is not there at present, as itself or a proxy before it says.
    pub unavailable: u64,
    /// The destination wants less.
    pub throttled: u64,
    /// The credentials were refused.
    pub unauthorized: u64,
    /// The credentials could not be read.
    pub credentials: u64,
    /// A disk failed or was full.
    pub disk: u64,
    /// The destination will never take it.
    pub rejected: u64,
    /// It is too large for the destination.
    pub too_large: u64,
    /// The destination does not know the request.
    pub unsupported: u64,
}

impl QueueLengths {
    /// All that wait.
    #[cfg(test)]
    pub(super) fn total(self) -> u64 {
        self.memory + self.spool
    }
}

impl Failures {
    /// Reasons and numbers.
    #[must_use]
    pub fn by_reason(self) -> [(&'static str, u64); 13] {
        let Self {
            unreachable,
            tls,
            timed_out,
            cut,
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
            ("cut", cut),
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
    /// Counts some.
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

    /// Reasons and numbers.
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

    /// All that were given up.
    #[must_use]
    pub fn total(self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}
