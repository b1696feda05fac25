//! HTTP/1.1, HTTP/2 and unary gRPC, with TLS.
//!
//! It uses hyper and rustls directly: a client sends a few requests at a time to one address, so it
//! needs no pool but a list, no redirections and no cookies; and a unary gRPC call adds five bytes and two
//! trailers to a request of HTTP/2.
//!
//! Invariants: a client keeps few connections, each with at most one request in flight; a response is bounded in size and in
//! time; text of a server is shown without the secrets that were sent to it.

mod authentication;
mod client;
mod config;
mod connect;
mod failure;
pub(crate) mod grpc;
mod redactor;
mod response;
mod retry;
mod secret;
#[cfg(test)]
pub(crate) mod support;
mod tls;
mod tls_advice;
mod tls_error;

pub(crate) use self::{
    client::{Client, MAX_CONNECTIONS, Request, content_type},
    retry::BackOff,
    tls::HttpProtocol,
};
pub use self::{
    config::{Authentication, ClientCertificate, HttpConfig, HttpConfigError, TlsConfig},
    failure::{HttpError, HttpErrorKind, ResponseStatus},
    retry::Retry,
    secret::{Secret, SecretSource},
};
