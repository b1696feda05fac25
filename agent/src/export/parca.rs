//! Parca: `ProfileStoreService/WriteRaw` over gRPC.

use bytes::Bytes;
use prost::Message as _;

use super::{
    batch::{Payload, PprofNames, ProfileBatch, Unencodable},
    destination::{Destination, Receipt},
    failure::DeliveryError,
    labels,
    spool::PayloadFormat,
};
use crate::{
    formats::FunctionNames,
    http_client::{Client, HttpConfig, HttpConfigError, HttpProtocol, MAX_CONNECTIONS, grpc},
    profile::TypeNaming,
};

/// Path of the method.
const PATH: &str = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";

/// Configuration of a Parca server or of Polar Signals Cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParcaConfig {
    /// Connection; the default port of Parca is 7070. The cloud requires the header `projectID`.
    pub http: HttpConfig,
    /// How Python functions are named. Flame graphs of Parca merge by this name, unless one groups by
    /// file too.
    pub function_names: FunctionNames,
}

impl ParcaConfig {
    /// The names in the pprof that Parca gets.
    pub(super) fn pprof_names(&self) -> PprofNames {
        PprofNames {
            functions: self.function_names,
            types: TypeNaming::Parca,
        }
    }
}

pub(super) struct Parca {
    client: Client,
    names: PprofNames,
}

impl Parca {
    pub(super) fn new(config: ParcaConfig) -> Result<Self, HttpConfigError> {
        let names = config.pprof_names();
        let client = Client::new(config.http, HttpProtocol::Http2)?;
        Ok(Self { client, names })
    }
}

impl Destination for Parca {
    const FORMAT: PayloadFormat = *b"parc";
    const MAX_REQUESTS: usize = MAX_CONNECTIONS;

    fn pack(&self, batch: &ProfileBatch) -> Result<Payload, Unencodable> {
        let labels = labels::of_batch(batch, TypeNaming::Parca).into_iter();
        let labels = labels.map(|(name, value)| Label { name, value }).collect();
        let request = WriteRawRequest {
            series: vec![Series {
                labels: Some(LabelSet { labels }),
                samples: vec![RawSample {
                    raw_profile: Bytes::from_owner(batch.pprof(self.names)?),
                }],
            }],
            // Addresses are relative to the executables.
            normalized: true,
        };
        // Not compressed: nearly all of it is the profile, which is compressed.
        let framed = grpc::frame(&request.encode_to_vec(), false);
        Ok(Payload {
            name: batch.name(),
            body: framed.ok_or(Unencodable)?,
        })
    }

    async fn send(&self, payload: &Payload) -> Result<Receipt, DeliveryError> {
        grpc::call(&self.client, PATH, &payload.body).await?;
        Ok(Receipt::Complete)
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
