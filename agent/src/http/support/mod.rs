//! What tests of all that speaks HTTP share.

pub(crate) mod certificates;
pub(crate) mod server;
