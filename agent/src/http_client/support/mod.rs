//! What tests of all that speaks HTTP share.

pub(crate) mod certificates;
