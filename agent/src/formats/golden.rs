//! Golden files: the expected output of encoders.

use std::{env, fs, path::Path};

use super::{
    encode::encode,
    format::Format,
    options::{EncodeOptions, Internals},
};
use crate::profile::Profile;

/// A profile in a format, with all of its frames, and with or without threads.
pub(crate) fn written(format: Format, profile: &Profile, threads: bool) -> Vec<u8> {
    let options = EncodeOptions {
        threads,
        internals: Internals::Shown,
        ..EncodeOptions::default()
    };
    let mut bytes = Vec::new();
    encode(profile, format, options, &mut bytes).unwrap();
    bytes
}

/// Compares with a golden file in `tests/data`; with `AGENT_BLESS=1` in the environment it is written.
pub(crate) fn assert_golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    if env::var_os("AGENT_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "{} differs; run with AGENT_BLESS=1 to accept the new output\n{actual}",
        path.display()
    );
}
