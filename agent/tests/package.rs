//! The package for Debian and its derivatives: installation, upgrade and removal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use test_support::containerfile::documented_capabilities;
use xtask::{packages, packaging::deb, paths, vm};

/// A version that comes after all others.
const NEWER: &str = "9999";

/// The manual page and the completions, where Debian's programs read them.
const DOCUMENTS: [&str; 4] = [
    "usr/share/man/man1/agent.1.gz",
    "usr/share/bash-completion/completions/agent",
    "usr/share/fish/vendor_completions.d/agent.fish",
    "usr/share/zsh/vendor-completions/_agent",
];

/// Builds a package of this version and copies it to a folder: the next build overwrites the
/// original.
fn build(version: Option<&str>, folder: &Path) -> PathBuf {
    let package = deb::make(version).unwrap();
    let copy = folder.join(package.file_name().unwrap());
    fs::copy(package, &copy).unwrap();
    copy
}

#[test]
fn the_package_is_installed_upgraded_and_purged() {
    // The package contains the tested program, not an older build.
    let agent = Path::new(env!("CARGO_BIN_EXE_agent"));
    assert_eq!(agent, paths::agent_binary(), "run it with --release");
    let folder = tempfile::tempdir().unwrap();
    let first = build(None, folder.path());
    // Errors that lintian reports and that are not overridden.
    packages::install(&["lintian"]).unwrap();
    let mut lintian = Command::new("lintian");
    let lintian = lintian.args(["--fail-on", "error"]).arg(&first);
    let output = lintian.output().unwrap();
    let found = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{found}");

    let list = Command::new("dpkg-deb")
        .arg("--contents")
        .arg(&first)
        .output();
    let list = String::from_utf8(list.unwrap().stdout).unwrap();
    for document in DOCUMENTS {
        assert!(
            list.contains(&format!(" ./{document}\n")),
            "{document}: {list}"
        );
    }

    let second = build(Some(NEWER), folder.path());
    vm::check_packages(&first, &second, &documented_capabilities()).unwrap();
}
