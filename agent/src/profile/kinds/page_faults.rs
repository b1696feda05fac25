//! Page faults: accesses to memory that the kernel had to resolve.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, Words};

/// Page faults, minor and major. The period is a prime, so that no loop faults in lockstep with it.
pub static KIND: Kind = Kind::of_events(
    ProfileKind::PAGE_FAULTS,
    "page-faults",
    "page_faults",
    101,
    Words {
        total: "page faults",
        any: "had any page fault",
        none: "had no page fault",
    },
);
