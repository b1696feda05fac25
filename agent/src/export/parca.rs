//! Parca: `ProfileStoreService/WriteRaw` over gRPC.

use bytes::Bytes;
use prost::Message as _;

use super::{
    batch::{Payload, ProfileBatch},
    destination::{Destination, Receipt, Unencodable},
    failure::DeliveryError,
    labels,
    spool::PayloadFormat,
};
use crate::http_client::{Client, HttpConfig, HttpConfigError, HttpProtocol, grpc};

/// What is called.
const PATH: &str = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";

/// A Parca, its cloud included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParcaConfig {
    /// Where it is; its port is 7070 unless somebody changed it. The cloud wants a header
    /// `projectID` besides.
    pub http: HttpConfig,
}

/// The destination.
pub(super) struct Parca {
    client: Client,
}

impl Parca {
    pub(super) fn new(config: ParcaConfig) -> Result<Self, HttpConfigError> {
        let client = Client::new(config.http, HttpProtocol::Http2)?;
        Ok(Self { client })
    }
}

impl Destination for Parca {
    const FORMAT: PayloadFormat = *b"parc";

    fn pack(&self, batch: &ProfileBatch) -> Result<Payload, Unencodable> {
        let labels = labels::of_batch(batch).into_iter();
        let labels = labels.map(|(name, value)| Label { name, value }).collect();
        let request = WriteRawRequest {
            series: vec![Series {
                labels: Some(LabelSet { labels }),
                samples: vec![RawSample {
                    raw_profile: Bytes::from_owner(batch.pprof.clone()),
                }],
            }],
            // Addresses are those of the executables themselves.
            normalized: true,
        };
        // Not compressed: nearly all of it is the profile, which is.
        let framed = grpc::frame(&request.encode_to_vec(), false);
        Ok(Payload {
            name: batch.name(),
            body: framed.ok_or(Unencodable)?,
        })
    }

    async fn send(&self, payload: &Payload) -> Result<Receipt, DeliveryError> {
        grpc::call(&self.client, PATH, &payload.body).await?;
        Ok(Receipt::Whole)
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct WriteRawRequest {
    #[prost(message, repeated, tag = "2")]
    series: Vec<Series>,
    #[prost(bool, tag = "3")]
    normalized: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Series {
    #[prost(message, optional, tag = "1")]
    labels: Option<LabelSet>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LabelSet {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
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
}
