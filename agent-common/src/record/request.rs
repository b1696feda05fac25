//! Requests to the agent.

use super::header::{Header, RecordKind};

/// Code of a file was sampled whose unwind table is not loaded.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedTable {
    /// [`RecordKind::WANTED_TABLE`](super::RecordKind::WANTED_TABLE).
    pub header: Header,
    /// The number that the agent assigned to the file.
    pub executable: u32,
    /// The process that runs it, in the initial PID namespace.
    pub tgid: u32,
}

impl WantedTable {
    /// The request for the table of a file that a process runs.
    #[inline(always)]
    #[must_use]
    pub const fn of(executable: u32, tgid: u32) -> Self {
        Self {
            header: Header {
                kind: RecordKind::WANTED_TABLE,
                reserved: 0,
                bytes: size_of::<Self>() as u32,
            },
            executable,
            tgid,
        }
    }
}

/// A page that a sample needed and that was not resident: only the agent can wait for it.
#[repr(C)]
#[cfg_attr(
    feature = "user",
    derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentPage {
    /// [`RecordKind::ABSENT_PAGE`](super::RecordKind::ABSENT_PAGE).
    pub header: Header,
    /// An address in it.
    pub address: u64,
    /// The process, in the initial PID namespace.
    pub tgid: u32,
    /// Bytes that were needed from `address` on.
    pub bytes: u32,
}

const _: () = assert!(size_of::<WantedTable>() == 16);
const _: () = assert!(size_of::<AbsentPage>() == 24);
