//! Grafana Pyroscope: `push.v1.PusherService/Push`, a protobuf over HTTP.
//!
//! The request itself is not compressed: all of it but a few labels is the profile, which is.
//!
//! By default it refuses profiles of more than [`MAX_SAMPLES`] samples or [`MAX_BYTES`]. What is
//! larger is sent as several profiles of the same window in one request, which it adds up.

use bytes::Bytes;
use hyper::header::HeaderName;
use prost::Message as _;
use rustix::rand::{GetRandomFlags, getrandom};

use super::{
    batch::{Payload, ProfileBatch},
    destination::{Destination, Receipt, Unencodable},
    failure::Failure,
    labels, spool,
};
use crate::{
    formats::{EncodeOptions, Format, encode},
    http_client::{Client, HttpConfig, HttpConfigError, Request, Version, content_type},
    profile::Profile,
    store::name,
};

/// What is called.
const PATH: &str = "/push.v1.PusherService/Push";

/// Says whose profiles these are.
const TENANT: HeaderName = HeaderName::from_static("x-scope-orgid");

/// Most samples of a profile.
const MAX_SAMPLES: usize = 16_000;

/// Most bytes of a profile before it was compressed.
const MAX_BYTES: usize = 4 << 20;

/// Most profiles of a request: what would have to be split further is left to be refused.
const MAX_PARTS: usize = 16;

/// A Pyroscope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PyroscopeConfig {
    /// Where it is; its port is 4040 unless somebody changed it.
    pub http: HttpConfig,
    /// Whose profiles these are, where it serves many.
    pub tenant: Option<String>,
}

/// The destination.
pub(super) struct Pyroscope {
    client: Client,
}

impl Pyroscope {
    pub(super) fn new(config: PyroscopeConfig) -> Result<Self, HttpConfigError> {
        let mut client = Client::new(config.http, Version::Http1)?;
        if let Some(tenant) = config.tenant {
            client.add_header(TENANT, &tenant)?;
        }
        Ok(Self { client })
    }
}

impl Destination for Pyroscope {
    const FORMAT: spool::Format = *b"pyro";

    fn pack(&self, report: &ProfileBatch) -> Result<Payload, Unencodable> {
        let labels = labels::of_report(report).into_iter();
        let samples = match parts(report) {
            0 | 1 => vec![raw_sample(Bytes::from_owner(report.pprof.clone()))],
            parts => split(&report.profile, parts)?,
        };
        let request = PushRequest {
            series: vec![Series {
                labels: labels.map(|(name, value)| Label { name, value }).collect(),
                samples,
            }],
        };
        Ok(Payload {
            name: name::of_report(report),
            body: request.encode_to_vec().into(),
        })
    }

    async fn send(&self, parcel: &Payload) -> Result<Receipt, Failure> {
        let post = Request {
            path: PATH,
            headers: &[content_type("application/proto")],
            body: parcel.body.clone(),
        };
        let (answer, words) = self.client.post(&post).await?;
        answer.into_success(&words)?;
        Ok(Receipt::Whole)
    }
}

/// Into how many profiles a report has to be split to be within the limits.
fn parts(report: &ProfileBatch) -> usize {
    // A gzip ends with the length of what is in it.
    let length = report.pprof.last_chunk();
    let bytes = length.map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let for_bytes = match bytes {
        0..=MAX_BYTES => 1,
        // Each of them has some tables of its own.
        _ => bytes.div_ceil(MAX_BYTES / 2),
    };
    let samples = report.profile.samples.len();
    samples.div_ceil(MAX_SAMPLES).max(for_bytes).min(MAX_PARTS)
}

/// Profiles that have all samples of one.
fn split(profile: &Profile, parts: usize) -> Result<Vec<RawSample>, Unencodable> {
    let length = profile.samples.len().div_ceil(parts).max(1);
    let chunks = profile.samples.chunks(length).map(|samples| {
        let part = Profile {
            samples: samples.to_vec(),
            ..profile.clone()
        };
        let mut pprof = Vec::new();
        encode(&part, Format::Pprof, &EncodeOptions::default(), &mut pprof)
            .map_err(|_| Unencodable)?;
        Ok(raw_sample(pprof.into()))
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

/// A random UUID, which is the same whenever the parcel is sent.
fn random_id() -> String {
    let mut bytes = [0; 16];
    // Without random bytes there is no id, which may be left out.
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
