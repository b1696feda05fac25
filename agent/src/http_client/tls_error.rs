//! A stream that remembers how TLS on it failed.
//!
//! What speaks HTTP on a stream tells of its errors in its own words, in which the reason is lost:
//! that of a certificate that the other side refuses comes to nobody otherwise.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first failure of TLS on a stream, once there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsError(Arc<OnceLock<rustls::Error>>);

impl TlsError {
    pub(super) fn get(&self) -> Option<&rustls::Error> {
        self.0.get()
    }

    fn note<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &result {
            let error = error.get_ref();
            if let Some(error) = error.and_then(|error| error.downcast_ref::<rustls::Error>()) {
                // What comes after the first only follows from it.
                let _ = self.0.set(error.clone());
            }
        }
        result
    }
}

/// The stream.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    error: TlsError,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, error: TlsError) -> Self {
        Self { stream, error }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.error.note(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.error.note(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.error.note(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.error.note(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.error.note(result)
    }
}
