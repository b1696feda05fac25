//! Configurations for tests.

use std::fs;

use super::{Config, Sources};

/// The configuration of a file with this text, which is valid.
pub(crate) fn config(text: &str) -> Config {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let config = Config::read(&Sources {
        file: Some(file.path().to_owned()),
        folder: "/var/lib/agent".into(),
        ..Sources::default()
    });
    config.unwrap()
}
