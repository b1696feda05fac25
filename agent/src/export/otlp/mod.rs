//! OpenTelemetry's profiles, `v1development`, over gRPC or HTTP.
//!
//! The model is encoded anew, as OTLP shares one dictionary between all processes; and always
//! compressed, as texts take most of it.

mod dictionary;
mod request;
mod schema;
mod table;

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use hyper::header::CONTENT_ENCODING;
use prost::Message as _;

use self::schema::Response;
use super::{
    batch::{Payload, ProfileBatch},
    destination::{Destination, Receipt, Unencodable},
    failure::Failure,
    spool::Format,
};
use crate::http_client::{
    Client, HttpConfig, HttpConfigError, Request, Version, content_type, grpc,
};

/// What is called over gRPC.
const GRPC_PATH: &str =
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

/// What is posted to over HTTP.
const HTTP_PATH: &str = "/v1development/profiles";

/// An OpenTelemetry Collector, or what else takes OTLP. A collector wants
/// `--feature-gates=service.profilesSupport`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpConfig {
    /// Where it is; its port is 4317 for gRPC and 4318 for HTTP unless somebody changed it.
    pub http: HttpConfig,
    /// How it is spoken to.
    pub protocol: OtlpProtocol,
}

/// How OTLP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// gRPC.
    #[default]
    Grpc,
    /// Protobuf over HTTP/1.1.
    Http,
}

/// The destination over gRPC.
pub(super) struct OtlpGrpc(Client);

/// The destination over HTTP.
pub(super) struct OtlpHttp(Client);

impl OtlpGrpc {
    pub(super) fn new(config: HttpConfig) -> Result<Self, HttpConfigError> {
        Client::new(config, Version::Http2).map(Self)
    }
}

impl OtlpHttp {
    pub(super) fn new(config: HttpConfig) -> Result<Self, HttpConfigError> {
        Client::new(config, Version::Http1).map(Self)
    }
}

impl Destination for OtlpGrpc {
    const FORMAT: Format = *b"otlg";

    fn pack(&self, report: &ProfileBatch) -> Result<Payload, Unencodable> {
        let framed = grpc::frame(&compressed(report)?, true);
        Ok(Payload {
            name: report.name(),
            body: framed.ok_or(Unencodable)?,
        })
    }

    async fn send(&self, parcel: &Payload) -> Result<Receipt, Failure> {
        let answer = grpc::call(&self.0, GRPC_PATH, &parcel.body).await?;
        Ok(receipt(&answer))
    }
}

impl Destination for OtlpHttp {
    const FORMAT: Format = *b"otlh";

    fn pack(&self, report: &ProfileBatch) -> Result<Payload, Unencodable> {
        Ok(Payload {
            name: report.name(),
            body: compressed(report)?.into(),
        })
    }

    async fn send(&self, parcel: &Payload) -> Result<Receipt, Failure> {
        let post = Request {
            path: HTTP_PATH,
            headers: &[
                content_type("application/x-protobuf"),
                (CONTENT_ENCODING, "gzip"),
            ],
            body: parcel.body.clone(),
        };
        let (answer, words) = self.0.post(&post).await?;
        Ok(receipt(&answer.into_success(&words)?.body))
    }
}

fn compressed(report: &ProfileBatch) -> Result<Vec<u8>, Unencodable> {
    let request = request::of_report(report)?.encode_to_vec();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&request).map_err(|_| Unencodable)?;
    gzip.finish().map_err(|_| Unencodable)
}

/// What an answer says. One that is not understood was a success all the same.
fn receipt(answer: &Bytes) -> Receipt {
    let response = Response::decode(answer.clone()).unwrap_or_default();
    match response.partial_success {
        Some(partial) if partial.rejected_profiles > 0 => Receipt::Partial,
        _ => Receipt::Whole,
    }
}
