//! Grafana Pyroscope: `push.v1.PusherService/Push`, a protobuf over HTTP.
//!
//! The request itself is not compressed: all of it but a few labels is the profile, which is.

use bytes::Bytes;
use hyper::header::HeaderName;
use prost::Message as _;
use rustix::rand::{GetRandomFlags, getrandom};

use super::{
    destination::{Destination, Receipt, Unencodable},
    failure::Failure,
    http::{Client, HttpConfig, HttpConfigError, Post, Version, content_type},
    labels, name,
    report::{Parcel, Report},
    spool::Format,
};

/// What is called.
const PATH: &str = "/push.v1.PusherService/Push";

/// Says whose profiles these are.
const TENANT: HeaderName = HeaderName::from_static("x-scope-orgid");

/// A Pyroscope.
#[derive(Clone, Debug)]
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
    const FORMAT: Format = *b"pyro";

    fn pack(&self, report: &Report) -> Result<Parcel, Unencodable> {
        let labels = labels::of_report(report).into_iter();
        let request = PushRequest {
            series: vec![Series {
                labels: labels.map(|(name, value)| Label { name, value }).collect(),
                samples: vec![RawSample {
                    raw_profile: Bytes::from_owner(report.pprof.clone()),
                    id: random_id(),
                }],
            }],
        };
        Ok(Parcel {
            name: name::of_report(report),
            body: request.encode_to_vec().into(),
        })
    }

    async fn send(&self, parcel: &Parcel) -> Result<Receipt, Failure> {
        let post = Post {
            path: PATH,
            headers: &[content_type("application/proto")],
            body: parcel.body.clone(),
        };
        let (answer, words) = self.client.post(&post).await?;
        answer.into_success(&words)?;
        Ok(Receipt::Whole)
    }
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
