//! `go tool pprof`, of each Go.

use std::{path::Path, process::Stdio};

use xtask::tools::go::Go;

/// What it prints on standard output and on standard error; it must succeed. It finds nothing in
/// `folder` but what was put there, and leaves there what it fetches.
pub fn pprof<'a>(
    go: &Go,
    folder: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> (String, String) {
    let output = go
        .command()
        .args(["tool", "pprof"])
        .args(arguments)
        // Whoever runs this may keep binaries and profiles where pprof looks by default.
        .env("PPROF_BINARY_PATH", folder)
        .env("PPROF_TMPDIR", folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "go {}: {stderr}", go.version());
    (stdout, stderr)
}
