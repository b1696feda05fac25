//! Time with the GIL: what each thread does while it holds it.

use agent_common::record::ProfileKind;

use crate::profile::kind::{Kind, PassSamples, Words};

/// Elapsed time in which threads hold the GIL, whether they run or wait, and whether others wait for it: so its
/// sum is at most the elapsed time, for each GIL. No collector has a name for it.
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
