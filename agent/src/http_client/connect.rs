//! A connection: HTTP over TCP, with or without TLS, or over a Unix socket.
//!
//! It is used for consecutive requests, but not for long and not after a pause: a middlebox may drop
//! idle connections silently, and the name may resolve to another address.

use std::{error::Error, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    task::JoinHandle,
    time::Instant,
};
use tokio_rustls::TlsConnector;

use super::{
    config::{Address, Endpoint},
    failure::HttpError,
    tls::HttpProtocol,
    tls_error::{TlsError, TlsErrorRecorder},
};

/// Longest use of a connection.
const MAX_AGE: Duration = Duration::from_secs(300);

/// Longest pause between two requests.
const MAX_IDLE: Duration = Duration::from_secs(50);

/// An open connection.
pub(super) struct Connection {
    sender: Sender,
    opened: Instant,
    used: Instant,
    driver: JoinHandle<()>,
    tls_error: TlsError,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    pub(super) async fn open(
        address: &Address,
        tls: Option<Arc<ClientConfig>>,
        version: HttpProtocol,
    ) -> Result<Self, HttpError> {
        let unreachable = |source| HttpError::Unreachable {
            address: address.name(),
            source,
        };
        let tls_error = TlsError::default();
        let (host, port) = match &address.endpoint {
            Endpoint::Host { name, port } => (&**name, *port),
            Endpoint::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                return Self::handshake(stream, version, tls_error).await;
            }
        };
        let stream = TcpStream::connect((host, port))
            .await
            .map_err(unreachable)?;
        // A request is written at once: there is nothing to coalesce.
        let _ = stream.set_nodelay(true);
        let Some(config) = tls else {
            return Self::handshake(stream, version, tls_error).await;
        };
        let failed = |source: Box<dyn Error + Send + Sync>| HttpError::Tls {
            address: address.authority.clone(),
            source,
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|e| failed(e.into()))?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| failed(error.into()))?;
        let protocol = stream.get_ref().1.alpn_protocol();
        if version == HttpProtocol::Http2 && protocol != Some(b"h2") {
            return Err(failed("the server does not support HTTP/2".into()));
        }
        let stream = TlsErrorRecorder::new(stream, tls_error.clone());
        Self::handshake(stream, version, tls_error).await
    }

    async fn handshake<S>(
        stream: S,
        version: HttpProtocol,
        tls_error: TlsError,
    ) -> Result<Self, HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        let closed = |source| HttpError::ConnectionClosed { source };
        let (sender, driver) = match version {
            HttpProtocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await.map_err(closed)?;
                let driver = tokio::spawn(async {
                    // The pending request gets the error.
                    let _ = connection.await;
                });
                (Sender::Http1(sender), driver)
            }
            HttpProtocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream)
                    .await
                    .map_err(closed)?;
                let driver = tokio::spawn(async {
                    let _ = connection.await;
                });
                (Sender::Http2(sender), driver)
            }
        };
        let now = Instant::now();
        Ok(Self {
            sender,
            opened: now,
            used: now,
            driver,
            tls_error,
        })
    }

    /// Whether another request may use it.
    pub(super) fn is_usable(&self) -> bool {
        let is_closed = match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        };
        !is_closed && self.opened.elapsed() < MAX_AGE && self.used.elapsed() < MAX_IDLE
    }

    /// Replaces an error by its cause: with TLS 1.3 a server rejects a client certificate only after
    /// the handshake.
    pub(super) fn explain(&self, failure: HttpError, address: &Address) -> HttpError {
        match (failure, self.tls_error.get()) {
            (HttpError::ConnectionClosed { .. }, Some(error)) => HttpError::Tls {
                address: address.authority.clone(),
                source: Box::new(error.clone()),
            },
            (failure, _) => failure,
        }
    }

    /// Sends a request and waits for the headers of the response.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        };
        self.used = Instant::now();
        response
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
