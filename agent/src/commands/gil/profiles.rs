//! The profiles from which the table of `agent gil` is made.

use anyhow::{Context as _, Result};

use crate::profile::Profile;

/// The profiles of a capture from which the table is made.
pub(super) struct Profiles {
    /// Elapsed time.
    pub(super) elapsed: Profile,
    /// Waiting for the GIL, by who holds it.
    pub(super) blamed: Profile,
    /// Time with the GIL.
    pub(super) held: Profile,
}

impl Profiles {
    /// From those of the kinds, in their order.
    pub(super) fn new(profiles: Vec<Profile>) -> Result<Self> {
        let [elapsed, blamed, held]: [Profile; 3] =
            profiles.try_into().ok().context("a kind has no profile")?;
        Ok(Self {
            elapsed,
            blamed,
            held,
        })
    }
}
