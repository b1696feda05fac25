//! The agent as it is distributed.

pub mod deb;
pub mod image;
