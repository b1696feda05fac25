//! Where things are kept.

use std::env;
use std::path::PathBuf;

pub use build_bpf::paths::{cache, workspace};

/// Cargo's target directory for this checkout.
#[must_use]
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(
        || workspace().join("target"),
        |directory| workspace().join(directory),
    )
}

/// The release build of the agent.
#[must_use]
pub fn agent_binary() -> PathBuf {
    target().join("release/agent")
}
