//! Why the server cannot start.

use std::{io, net::SocketAddr, path::PathBuf};

use crate::http_client::HttpError;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Of the TCP address.
    #[error(
        "cannot listen at {address} ({source}): choose another address with `listen`, or `off`"
    )]
    Address {
        /// The address.
        address: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// Of the Unix socket.
    #[error("cannot listen at '{}' ({source}): choose another path with `socket`, or `off`", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: SocketError,
    },
    /// The token cannot be read.
    #[error("`http_token_file`: {0}")]
    Token(#[from] HttpError),
    /// The token is too short to be one.
    #[error("`http_token_file`: the token has fewer than {least} characters, so it can be guessed")]
    ShortToken {
        /// The least number of characters.
        least: usize,
    },
}

/// Why a Unix socket cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// A process listens there.
    #[error("another agent listens there")]
    InUse,
    /// Something else has its name.
    #[error("it is not a socket")]
    NotASocket,
    /// The kernel refuses.
    #[error(transparent)]
    Kernel(#[from] io::Error),
}
