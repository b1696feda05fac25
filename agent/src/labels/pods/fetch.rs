//! Where the list of pods comes from.

use std::{fs::File, future::Future, io, io::Read as _, path::Path};

use thiserror::Error;

/// Most bytes of a list; a pod takes some ten thousand.
pub const MAX_LIST_BYTES: usize = 32 << 20;

/// Most bytes of a token.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// Why a list could not be fetched.
#[derive(Debug, Error)]
#[error("cannot fetch the list of pods from {from}")]
pub struct FetchError {
    /// Where it should have come from.
    pub from: String,
    /// What went wrong.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Fetches the list of the pods of this node.
///
/// From the kubelet that is `https://NODE:10250/pods`, from the API server
/// `/api/v1/pods?fieldSelector=spec.nodeName=NODE`; both take a token ([`read_token`]).
pub trait Fetch {
    /// Gives the document, at most [`MAX_LIST_BYTES`] bytes.
    fn fetch(&self) -> impl Future<Output = Result<Vec<u8>, FetchError>> + Send;
}

/// Reads the token of a service account. Kubernetes replaces it from time to time, so it is to be
/// read for each request.
///
/// # Errors
///
/// When the file cannot be read, or contains what no header can.
pub fn read_token(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(MAX_TOKEN_BYTES)
        .read_to_string(&mut text)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("{} contains no token", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(token.to_owned())
}
