//! Grafana Pyroscope: `push.v1.PusherService/Push`, protobuf over HTTP.
//!
//! The request is not compressed: all of it but a few labels is the profile, which is compressed.
//!
//! By default Pyroscope rejects profiles of more than [`MAX_SAMPLES`] samples or [`MAX_BYTES`].
//! Larger ones are sent as several profiles of the same window in one request, which it sums up.

use bytes::Bytes;
use hyper::header::HeaderName;
use prost::Message as _;
use rustix::rand::{GetRandomFlags, getrandom};

use super::{
    batch::{Payload, ProfileBatch, Unencodable},
    destination::{Destination, Receipt},
    failure::DeliveryError,
    labels, spool,
};
use crate::{
    formats::FunctionNames,
    http_client::{
        Client, HttpConfig, HttpConfigError, HttpProtocol, MAX_CONNECTIONS, Request, content_type,
    },
    profile::{Profile, TypeNaming},
};

/// Path of the method.
const PATH: &str = "/push.v1.PusherService/Push";

/// Header of the tenant.
const TENANT: HeaderName = HeaderName::from_static("x-scope-orgid");

/// Most samples of a profile.
const MAX_SAMPLES: usize = 16_000;

/// Most bytes of an uncompressed profile.
const MAX_BYTES: usize = 4 << 20;

/// Most profiles of a request; what is larger still is left to be rejected.
const MAX_PARTS: usize = 16;

/// Configuration of a Pyroscope server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PyroscopeConfig {
    /// Connection; the default port is 4040.
    pub http: HttpConfig,
    /// Tenant, if the server has several.
    pub tenant: Option<String>,
    /// How Python functions are named. Pyroscope merges stacks by these names alone.
    pub function_names: FunctionNames,
}

pub(super) struct Pyroscope {
    client: Client,
    function_names: FunctionNames,
}

impl Pyroscope {
    pub(super) fn new(config: PyroscopeConfig) -> Result<Self, HttpConfigError> {
        let mut client = Client::new(config.http, HttpProtocol::Http1)?;
        if let Some(tenant) = config.tenant {
            client.add_header(TENANT, &tenant)?;
        }
        Ok(Self {
            client,
            function_names: config.function_names,
        })
    }
}

impl Destination for Pyroscope {
    const FORMAT: spool::PayloadFormat = *b"pyro";
    const MAX_REQUESTS: usize = MAX_CONNECTIONS;

    fn pack(&self, batch: &ProfileBatch) -> Result<Payload, Unencodable> {
        let labels = labels::of_batch(batch, TypeNaming::Pprof).into_iter();
        let pprof = batch.pprof(self.function_names)?;
        let samples = match parts(&batch.profile, &pprof) {
            0 | 1 => vec![raw_sample(Bytes::from_owner(pprof))],
            parts => split(batch, self.function_names, parts)?,
        };
        let request = PushRequest {
            series: vec![Series {
                labels: labels.map(|(name, value)| Label { name, value }).collect(),
                samples,
            }],
        };
        Ok(Payload {
            name: batch.name(),
            body: request.encode_to_vec().into(),
        })
    }

    async fn send(&self, payload: &Payload) -> Result<Receipt, DeliveryError> {
        let request = Request {
            path: PATH,
            headers: &[content_type("application/proto")],
            body: payload.body.clone(),
        };
        let (response, redactor) = self.client.post(&request).await?;
        response.into_success(&redactor)?;
        Ok(Receipt::Complete)
    }
}

/// Number of profiles that a profile has to be split into.
fn parts(profile: &Profile, pprof: &[u8]) -> usize {
    // A gzip stream ends with its uncompressed length.
    let length = pprof.last_chunk();
    let bytes = length.map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let for_bytes = match bytes {
        0..=MAX_BYTES => 1,
        // Each part has tables of its own.
        _ => bytes.div_ceil(MAX_BYTES / 2),
    };
    let samples = profile.samples.len();
    samples.div_ceil(MAX_SAMPLES).max(for_bytes).min(MAX_PARTS)
}

/// Splits the samples of a batch into parts.
fn split(
    batch: &ProfileBatch,
    function_names: FunctionNames,
    parts: usize,
) -> Result<Vec<RawSample>, Unencodable> {
    let profile = &*batch.profile;
    let length = profile.samples.len().div_ceil(parts).max(1);
    let chunks = profile.samples.chunks(length).map(|samples| {
        let part = Profile {
            samples: samples.to_vec(),
            ..profile.clone()
        };
        Ok(raw_sample(
            batch.encode(&part, function_names.into())?.into(),
        ))
    });
    chunks.collect()
}

fn raw_sample(raw_profile: Bytes) -> RawSample {
    let id = random_id();
    RawSample { raw_profile, id }
}

#[derive(Clone, PartialEq, prost::Message)]
struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<Series>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawSample {
    #[prost(bytes = "bytes", tag = "1")]
    raw_profile: Bytes,
    #[prost(string, tag = "2")]
    id: String,
}

/// A random UUID. Part of the payload, so a repeated delivery has the same one.
fn random_id() -> String {
    let mut bytes = [0; 16];
    // The ID is optional.
    if getrandom(&mut bytes, GetRandomFlags::NONBLOCK) != Ok(bytes.len()) {
        return String::new();
    }
    let random = u128::from_ne_bytes(bytes);
    let id = (random & !(0xf << 76) & !(0xc << 60)) | (4 << 76) | (8 << 60);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        id >> 96,
        (id >> 80) & 0xffff,
        (id >> 64) & 0xffff,
        (id >> 48) & 0xffff,
        id & 0xffff_ffff_ffff
    )
}
