//! `go tool pprof`, of each Go.

use std::{path::Path, process::Stdio};

use xtask::tools::go::Go;

/// Its standard output and standard error; it must succeed. It searches only `folder`, and stores
/// fetched files there.
pub fn pprof<'a>(
    go: &Go,
    folder: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> (String, String) {
    let output = go
        .command()
        .args(["tool", "pprof"])
        .args(arguments)
        // The default folders of pprof may contain binaries and profiles of the user.
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
