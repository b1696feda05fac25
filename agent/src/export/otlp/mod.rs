//! OTLP profiles, `v1development`, over gRPC or HTTP.
//!
//! The profile is encoded with one dictionary for all processes, and always compressed, as most of
//! it is text.
//!
//! Python functions have their module in their names by default: `Function` stands for
//! `code.function.name`, which the semantic conventions define as fully qualified, and Pyroscope and
//! Parca, which receive this protocol too, merge by it.

mod dictionary;
mod request;
mod schema;
mod table;

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use hyper::header::CONTENT_ENCODING;
use prost::Message as _;

use self::schema::ExportResponse;
use super::{
    batch::{Payload, ProfileBatch, Unencodable},
    destination::{Destination, Receipt},
    failure::DeliveryError,
    spool::PayloadFormat,
};
use crate::{
    formats::FunctionNames,
    http_client::{
        Client, HttpConfig, HttpConfigError, HttpProtocol, MAX_CONNECTIONS, Request, content_type,
        grpc,
    },
};

/// Path of the method over gRPC.
const GRPC_PATH: &str =
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

/// Path of the endpoint over HTTP.
const HTTP_PATH: &str = "/v1development/profiles";

/// Configuration of an OTLP receiver. The OpenTelemetry Collector requires
/// `--feature-gates=service.profilesSupport`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpConfig {
    /// Connection; the default port is 4317 for gRPC and 4318 for HTTP.
    pub http: HttpConfig,
    /// Transport.
    pub protocol: OtlpProtocol,
    /// How Python functions are named.
    pub function_names: FunctionNames,
}

/// Transport of OTLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// gRPC.
    #[default]
    Grpc,
    /// Protobuf over HTTP/1.1.
    Http,
}

/// The destination over gRPC.
pub(super) struct OtlpGrpc {
    client: Client,
    function_names: FunctionNames,
}

/// The destination over HTTP.
pub(super) struct OtlpHttp {
    client: Client,
    function_names: FunctionNames,
}

impl OtlpGrpc {
    pub(super) fn new(
        config: HttpConfig,
        function_names: FunctionNames,
    ) -> Result<Self, HttpConfigError> {
        Ok(Self {
            client: Client::new(config, HttpProtocol::Http2)?,
            function_names,
        })
    }
}

impl OtlpHttp {
    pub(super) fn new(
        config: HttpConfig,
        function_names: FunctionNames,
    ) -> Result<Self, HttpConfigError> {
        Ok(Self {
            client: Client::new(config, HttpProtocol::Http1)?,
            function_names,
        })
    }
}

impl Destination for OtlpGrpc {
    const FORMAT: PayloadFormat = *b"otlg";
    const MAX_REQUESTS: usize = MAX_CONNECTIONS;

    fn pack(&self, batch: &ProfileBatch) -> Result<Payload, Unencodable> {
        let framed = grpc::frame(&compressed(batch, self.function_names)?, true);
        Ok(Payload {
            name: batch.name(),
            body: framed.ok_or(Unencodable)?,
        })
    }

    async fn send(&self, payload: &Payload) -> Result<Receipt, DeliveryError> {
        let response = grpc::call(&self.client, GRPC_PATH, &payload.body).await?;
        Ok(receipt(&response))
    }
}

impl Destination for OtlpHttp {
    const FORMAT: PayloadFormat = *b"otlh";
    const MAX_REQUESTS: usize = MAX_CONNECTIONS;

    fn pack(&self, batch: &ProfileBatch) -> Result<Payload, Unencodable> {
        Ok(Payload {
            name: batch.name(),
            body: compressed(batch, self.function_names)?.into(),
        })
    }

    async fn send(&self, payload: &Payload) -> Result<Receipt, DeliveryError> {
        let request = Request {
            path: HTTP_PATH,
            headers: &[
                content_type("application/x-protobuf"),
                (CONTENT_ENCODING, "gzip"),
            ],
            body: payload.body.clone(),
        };
        let (response, redactor) = self.client.post(&request).await?;
        Ok(receipt(&response.into_success(&redactor)?.body))
    }
}

fn compressed(batch: &ProfileBatch, function_names: FunctionNames) -> Result<Vec<u8>, Unencodable> {
    let request = request::of_batch(batch, function_names)?.encode_to_vec();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&request).map_err(|_| Unencodable)?;
    gzip.finish().map_err(|_| Unencodable)
}

/// Reads a response. One that cannot be decoded still is a success.
fn receipt(response: &Bytes) -> Receipt {
    let response = ExportResponse::decode(response.clone()).unwrap_or_default();
    match response.partial_success {
        Some(partial) if partial.rejected_profiles > 0 => Receipt::Partial,
        _ => Receipt::Complete,
    }
}
