//! A stream that records the TLS error on it.
//!
//! The errors of hyper do not contain the TLS error that caused them, such as that the server rejected
//! the client certificate.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first TLS error on a stream, once there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsError(Arc<OnceLock<rustls::Error>>);

impl TlsError {
    pub(super) fn get(&self) -> Option<&rustls::Error> {
        self.0.get()
    }

    fn record<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &result {
            let error = error.get_ref();
            if let Some(error) = error.and_then(|error| error.downcast_ref::<rustls::Error>()) {
                // Later ones are consequences of the first.
                let _ = self.0.set(error.clone());
            }
        }
        result
    }
}

/// The stream.
#[derive(Debug)]
pub(super) struct TlsErrorRecorder<S> {
    stream: S,
    error: TlsError,
}

impl<S> TlsErrorRecorder<S> {
    pub(super) fn new(stream: S, error: TlsError) -> Self {
        Self { stream, error }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TlsErrorRecorder<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.error.record(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TlsErrorRecorder<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.error.record(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.error.record(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.error.record(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.error.record(result)
    }
}
