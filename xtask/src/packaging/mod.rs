//! The agent as it is distributed.

pub mod deb;
mod documents;
pub mod image;
pub mod release;

use std::env;
use std::process::Command;

use crate::paths;
use crate::process::capture;

/// The time of all files in a package, in seconds since 1970: of the last commit, if
/// `SOURCE_DATE_EPOCH` has none.
fn source_date_epoch() -> Option<String> {
    let chosen = env::var("SOURCE_DATE_EPOCH").ok();
    chosen.or_else(|| {
        let mut git = Command::new("git");
        git.current_dir(paths::workspace());
        capture(git.args(["log", "-1", "--format=%ct"])).ok()
    })
}
