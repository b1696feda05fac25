//! Secrets, and the files of secrets and certificates.
//!
//! Invariants: no `Debug` output contains a secret; files are bounded; a changed or replaced file is
//! read again.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use subtle::ConstantTimeEq as _;

use super::failure::HttpError;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A text that is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Its length, in characters.
    pub(crate) fn length(&self) -> usize {
        self.0.chars().count()
    }

    /// Whether it is what a client sent, in a time that only depends on the length.
    pub(crate) fn equals(&self, sent: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(sent).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// Source of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// The secret itself.
    #[cfg(any(test, feature = "testing"))]
    Value(Secret),
    /// The content of a file, without surrounding white space; read at each request.
    File(PathBuf),
}

/// Identity and change time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl SecretSource {
    /// The current secret. May block on the disk.
    pub(crate) fn read(&self) -> Result<Secret, HttpError> {
        let path = match self {
            #[cfg(any(test, feature = "testing"))]
            Self::Value(secret) => return Ok(secret.clone()),
            Self::File(path) => path,
        };
        let text = String::from_utf8(read_file(path)?).ok();
        let text = text.as_deref().map(str::trim);
        match text.filter(|text| !text.is_empty()) {
            Some(text) => Ok(Secret::new(text)),
            None => Err(unusable(path, "it contains no text")),
        }
    }
}

/// Stamp of a file, which differs after each change.
pub(super) fn stamp(path: &Path) -> Result<FileStamp, HttpError> {
    // Links are followed: Kubernetes replaces a link to update a secret.
    let metadata = fs::metadata(path).map_err(|source| failed(path, source))?;
    Ok(FileStamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        length: metadata.len(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// Content of a file, up to the limit.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, HttpError> {
    let read = || {
        let mut bytes = Vec::new();
        let file = File::open(path)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    };
    read().map_err(|source| failed(path, source))
}

/// Error of a file with invalid content.
pub(super) fn unusable(
    path: &Path,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> HttpError {
    failed(path, io::Error::new(io::ErrorKind::InvalidData, why))
}

fn failed(path: &Path, source: io::Error) -> HttpError {
    HttpError::Credentials {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = SecretSource::Value(Secret::new("hunter2"));
        assert!(!format!("{secret:?} {secret:#?}").contains("hunter2"));
    }

    #[test]
    fn a_secret_equals_only_itself() {
        let secret = Secret::new("hunter2");
        assert!(secret.equals(b"hunter2"));
        for other in ["", "hunter", "hunter3", "hunter22"] {
            assert!(!secret.equals(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_file_is_read_anew() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("token");
        let source = SecretSource::File(path.clone());
        assert!(matches!(source.read(), Err(HttpError::Credentials { .. })));
        for text in ["one\n", " two \r\n"] {
            fs::write(&path, text).unwrap();
            assert_eq!(source.read().unwrap(), Secret::new(text.trim()));
        }
        for bytes in [&b" \n"[..], b"\xff"] {
            fs::write(&path, bytes).unwrap();
            assert!(matches!(source.read(), Err(HttpError::Credentials { .. })));
        }
    }

    #[test]
    fn another_file_of_the_name_has_another_stamp() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("ca");
        fs::write(&path, "1").unwrap();
        let first = stamp(&path).unwrap();
        assert_eq!(stamp(&path).unwrap(), first);
        fs::write(temporary.path().join("new"), "2").unwrap();
        fs::rename(temporary.path().join("new"), &path).unwrap();
        assert_ne!(stamp(&path).unwrap(), first);
    }
}
