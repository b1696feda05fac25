//! Time with the GIL: what each thread does while it holds it.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, PassSamples, Words};

/// Elapsed time in which threads hold the GIL, whether they run or wait, and whether others wait for it. It is
/// derived: its samples are those of elapsed time. No collector has a name for it.
pub static KIND: Kind = Kind::of_passes(
    ProfileKind::GIL_HELD,
    "gil-held",
    ("gil_held", "gil_held"),
    PassSamples::HoldingGil,
    Words {
        total: "with the GIL",
        any: "held the GIL",
        none: "did not hold the GIL",
    },
);
