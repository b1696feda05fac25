//! Unary gRPC calls over HTTP/2.
//!
//! A message is preceded by five bytes: whether it is compressed, and its length. The status of a call
//! is in the trailers, or in the headers if there is no message.

use std::time::Duration;

use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use hyper::{StatusCode, header::HeaderName};
use prost::Message as _;

use super::{
    client::{Client, Request, content_type},
    failure::{HttpError, HttpErrorKind, ResponseStatus},
    redactor::Redactor,
    response::Response,
};

/// Header of the compression.
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_STATUS: &str = "grpc-status";
const GRPC_MESSAGE: &str = "grpc-message";
const GRPC_DETAILS: &str = "grpc-status-details-bin";

/// Length of the prefix of a message.
const PREFIX_BYTES: usize = 5;

/// Type of the detail with the time to wait.
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// A message with its prefix; [`None`] if its length does not fit.
pub(crate) fn frame(message: &[u8], is_compressed: bool) -> Option<Bytes> {
    let length = u32::try_from(message.len()).ok()?;
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(is_compressed.into());
    frame.put_u32(length);
    frame.put_slice(message);
    Some(frame.freeze())
}

/// Calls a method with a framed message. Returns the message of the response.
pub(crate) async fn call(client: &Client, path: &str, framed: &Bytes) -> Result<Bytes, HttpError> {
    let mut headers = vec![
        content_type("application/grpc"),
        (HeaderName::from_static("te"), "trailers"),
    ];
    if framed.first() == Some(&1) {
        headers.push((GRPC_ENCODING, "gzip"));
    }
    let request = Request {
        path,
        headers: &headers,
        body: framed.clone(),
    };
    let (response, redactor) = client.post(&request).await?;
    response.into_message(&redactor)
}

/// Reads the response of a call: its HTTP status, its headers and trailers, and its body.
///
/// # Errors
///
/// When it is not the response of a successful call.
#[cfg(feature = "fuzzing")]
pub fn read_response(
    status: StatusCode,
    headers: hyper::HeaderMap,
    body: Bytes,
) -> Result<Bytes, HttpError> {
    let response = Response {
        status,
        headers,
        body,
    };
    response.into_message(&Redactor(Vec::new()))
}

impl Response {
    /// The message of a successful call.
    fn into_message(self, redactor: &Redactor) -> Result<Bytes, HttpError> {
        let header = |name| self.headers.get(name)?.to_str().ok();
        let status = header(GRPC_STATUS).and_then(|text| text.parse().ok());
        let Some(status) = status else {
            // The response of something else than a gRPC server, such as a proxy.
            let status = self.status;
            let response = self.into_success(redactor)?;
            return Err(HttpError::Status {
                kind: HttpErrorKind::Unsupported,
                status: ResponseStatus::Http(status.as_u16()),
                message: redactor.show(&format!(
                    "no gRPC status, and {} bytes",
                    response.body.len()
                )),
                retry_after: None,
            });
        };
        if status == 0 && self.status == StatusCode::OK {
            // A response that is read here is too short to be compressed; of one that is, only the
            // success is used.
            let is_plain = self.body.first() == Some(&0);
            let message = self.body.get(PREFIX_BYTES..).filter(|_| is_plain);
            return Ok(message.map_or_else(Bytes::new, |message| self.body.slice_ref(message)));
        }
        let message = header(GRPC_MESSAGE).unwrap_or_default();
        let retry_after = header(GRPC_DETAILS)
            .and_then(retry_delay)
            .or_else(|| self.retry_after());
        Err(HttpError::Status {
            kind: kind(status, retry_after.is_some()),
            status: ResponseStatus::Grpc(status),
            message: redactor.show(&percent_decoded(message)),
            retry_after,
        })
    }
}

/// Kind of a status, as the OTLP specification has it for clients. "Resource exhausted" means both
/// too often and too large; a server that means the former sends a time to wait.
fn kind(status: u32, has_retry_delay: bool) -> HttpErrorKind {
    match status {
        // Resource exhausted.
        8 if has_retry_delay => HttpErrorKind::Throttled,
        8 => HttpErrorKind::TooLarge,
        // Permission denied.
        7 => HttpErrorKind::Forbidden,
        // Unauthenticated.
        16 => HttpErrorKind::Unauthorized,
        // Unimplemented.
        12 => HttpErrorKind::Unsupported,
        // Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss.
        1 | 4 | 10 | 11 | 14 | 15 => HttpErrorKind::Unavailable,
        // Unknown, internal.
        2 | 13 => HttpErrorKind::ServerError,
        _ => HttpErrorKind::Rejected,
    }
}

/// The details of `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct Details {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// The time to wait in the details of a status.
fn retry_delay(text: &str) -> Option<Duration> {
    // gRPC allows binary headers with padding and without.
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let base64 = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
    let status = Details::decode(&*base64.decode(text).ok()?).ok()?;
    let info = status
        .details
        .iter()
        .find(|any| any.type_url == RETRY_INFO)?;
    let delay = RetryInfo::decode(&*info.value).ok()?.delay?;
    let seconds = u64::try_from(delay.seconds).ok()?;
    let nanos = u32::try_from(delay.nanos).ok()?;
    Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanos.into()))
}

/// A status message with its percent-encoding decoded.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'%')
            .then(|| str::from_utf8(tail.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = match escaped {
            Some(_) => &tail[2..],
            None => tail,
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_decoded() {
        assert_eq!(percent_decoded("a%20b%C3%A9"), "a bé");
        for text in ["%", "%2", "%zz", "100 %", "%é"] {
            assert_eq!(percent_decoded(text), text);
        }
    }

    #[test]
    fn exhausted_without_a_delay_means_too_large() {
        assert_eq!(kind(8, true), HttpErrorKind::Throttled);
        assert_eq!(kind(8, false), HttpErrorKind::TooLarge);
    }

    #[test]
    fn malformed_details_are_ignored() {
        for text in ["", "!", "AAAA", "CAgQCA", "GgIKAA=="] {
            assert_eq!(retry_delay(text), None);
        }
    }
}
