//! `go tool pprof`.

use std::{
    io::ErrorKind,
    path::Path,
    process::{Command, Stdio},
};

/// What it prints on standard output and on standard error; it must succeed. It finds nothing in
/// `folder` but what was put there, and leaves there what it fetches.
pub(crate) fn pprof<'a>(
    folder: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> (String, String) {
    let output = Command::new("go")
        .args(["tool", "pprof"])
        .args(arguments)
        // Whoever runs this may keep binaries and profiles where pprof looks by default.
        .env("PPROF_BINARY_PATH", folder)
        .env("PPROF_TMPDIR", folder)
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("go is not installed: install the package golang-go")
        }
        output => output.unwrap(),
    };
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{stderr}");
    (stdout, stderr)
}
