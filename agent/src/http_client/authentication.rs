//! Credentials of a request.

use std::io;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::header::HeaderValue;
use tokio::task::spawn_blocking;

use super::{
    config::Authentication,
    failure::HttpError,
    secret::{self, SecretSource},
};

/// Credentials of a request, and the secrets that no message may repeat.
pub(super) struct Credentials {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) secrets: Vec<String>,
}

impl Authentication {
    pub(super) fn credentials(&self) -> Result<Credentials, HttpError> {
        let (scheme, token, secret) = match self {
            Self::None => {
                return Ok(Credentials {
                    authorization: None,
                    secrets: Vec::new(),
                });
            }
            Self::Bearer(source) => {
                let secret = source.read()?;
                ("Bearer", secret.reveal().to_owned(), secret)
            }
            Self::Basic { user, password } => {
                let secret = password.read()?;
                let pair = format!("{user}:{}", secret.reveal());
                ("Basic", STANDARD.encode(pair), secret)
            }
        };
        let value = HeaderValue::try_from(format!("{scheme} {token}"));
        let mut value = value.map_err(|_| {
            let path = match self {
                Self::Bearer(SecretSource::File(path)) => path.clone(),
                _ => "the token".into(),
            };
            secret::unusable(&path, "it contains invalid characters")
        })?;
        value.set_sensitive(true);
        Ok(Credentials {
            authorization: Some(value),
            secrets: vec![token, secret.reveal().to_owned()],
        })
    }
}

/// Reads files on a thread that may block on the disk.
pub(super) async fn read<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    match spawn_blocking(read).await {
        Ok(read) => read,
        Err(error) => Err(HttpError::Credentials {
            path: "credentials".into(),
            source: io::Error::other(error),
        }),
    }
}
