//! Major page faults: accesses to memory for which the kernel had to read from a disk.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, Words};

/// Major page faults. Each is a sample: the wait for the disk costs far more.
pub static KIND: Kind = Kind::of_events(
    ProfileKind::MAJOR_FAULTS,
    "major-faults",
    "major_faults",
    1,
    Words {
        total: "major page faults",
        any: "had any major page fault",
        none: "had no major page fault",
    },
);
