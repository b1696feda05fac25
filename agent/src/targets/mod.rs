//! Which processes are profiled, and what they are called.

pub mod discovery;
pub mod examiner;
pub mod kubernetes;
pub mod labels;
pub mod launch;
mod launch_user;
pub mod selection;
mod users;

pub use launch_user::LaunchUser;

/// Most processes that are tracked at the same time.
pub const MAX_PROCESSES: usize = 32_768;
