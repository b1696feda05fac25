//! Builds the agent's binary, package, release and image.

use std::path::PathBuf;

use anyhow::Result;
use xtask::architecture::Architecture;
use xtask::packaging::{deb, image, release};
use xtask::paths;
use xtask::process::{cargo, run};

use super::setup;

/// Builds the agent's release binary for an architecture and returns its path.
pub(crate) fn agent_for(architecture: Architecture) -> Result<PathBuf> {
    if architecture.is_host() {
        return agent();
    }
    setup::bpf()?;
    architecture.build()
}

/// Builds the agent's release binary and returns its path.
pub(crate) fn agent() -> Result<PathBuf> {
    setup::bpf()?;
    run(cargo().args(["build", "--release", "--package", "agent"]))?;
    Ok(paths::agent_binary())
}

/// Builds the agent and its package, and returns the package's path; `version` replaces the
/// version of the crate.
pub(crate) fn package(version: Option<&str>) -> Result<PathBuf> {
    agent()?;
    deb::make(version)
}

/// Builds the agent and the files of a release, and returns their directory.
pub(crate) fn release() -> Result<PathBuf> {
    release::make(&package(None)?)
}

/// Builds the agent and its container image, and returns the image's name.
pub(crate) fn image() -> Result<&'static str> {
    image::make(&agent()?, None)
}

#[cfg(test)]
mod tests {
    use xtask::process::capture;

    use super::*;

    /// The names of the packages that `cargo tree` lists.
    fn tree(arguments: &[&str]) -> Vec<String> {
        let list = capture(cargo().args(["tree", "--prefix", "none"]).args(arguments)).unwrap();
        let names = list
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        names.map(str::to_owned).collect()
    }

    /// A dependency on `xtask` would rebuild the agent after an edit of any task.
    #[test]
    fn the_agents_build_script_depends_on_build_bpf_alone() {
        let agent = tree(&["--package", "agent", "--edges", "build", "--depth", "1"]);
        assert_eq!(agent, ["agent", "build-bpf"]);
        let build_bpf = tree(&["--package", "build-bpf", "--edges", "normal,build"]);
        let of_object = [
            "object",
            "crc32fast",
            "cfg-if",
            "hashbrown",
            "foldhash",
            "indexmap",
            "equivalent",
            "hashbrown",
            "memchr",
        ];
        let expected = [["build-bpf", "anyhow"].as_slice(), &of_object].concat();
        assert_eq!(build_bpf, expected);
    }
}
