//! Shared by the tests of HTTP clients.

pub(crate) mod certificates;
