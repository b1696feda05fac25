//! Requests and their answers, for all that is asked or sent over the network.
//!
//! hyper and rustls themselves, and no client on top of them: what is sent here is one request
//! after the other to one address, which needs no pool, no redirections and no cookies; and what
//! gRPC adds for a call with one message each way is five bytes and two trailers.
//!
//! Invariants: at most one request of a destination is under way; an answer is bounded in size and
//! in time; what the other side says is shown without the secrets that it was sent.

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
mod tls_error;

pub(crate) use self::{
    client::{Client, Request, content_type},
    retry::BackOff,
    tls::HttpProtocol,
};
pub use self::{
    config::{Authentication, ClientCertificate, HttpConfig, HttpConfigError, TlsConfig},
    failure::{HttpError, HttpErrorKind, ResponseStatus},
    retry::Retry,
    secret::{Secret, SecretSource},
};
