//! Which processes are profiled, and what they are called.

pub mod discovery;
pub mod kubernetes;
pub mod labels;
pub mod launch;
