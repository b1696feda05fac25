//! Parca.

use bytes::Bytes;
use prost::Message as _;

use super::{
    pyroscope::{LabelPair, RawSample, pairs},
    rules::{check_labels, check_pprof},
    server::{Received, Reply, grpc_message, grpc_status},
};

#[derive(Clone, PartialEq, prost::Message)]
pub struct WriteRawRequest {
    #[prost(string, tag = "1")]
    pub tenant: String,
    #[prost(message, repeated, tag = "2")]
    pub series: Vec<ParcaSeries>,
    #[prost(bool, tag = "3")]
    pub normalized: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ParcaSeries {
    #[prost(message, optional, tag = "1")]
    pub labels: Option<LabelSet>,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LabelSet {
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<LabelPair>,
}

fn check_write_raw(received: &Received) -> Result<(), String> {
    let path = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
    if received.path != path || received.header("te") != "trailers" {
        return Err(format!("not implemented: {}", received.path));
    }
    if !received
        .header("content-type")
        .starts_with("application/grpc")
    {
        return Err("unsupported type".to_owned());
    }
    let request = write_raw(&received.body);
    for series in &request.series {
        let labels = series.labels.as_ref().ok_or("no labels")?;
        check_labels(pairs(&labels.labels))?;
        series
            .samples
            .iter()
            .try_for_each(|sample| check_pprof(&sample.raw_profile))?;
    }
    if request.tenant.is_empty() {
        Ok(())
    } else {
        Err("tenant is deprecated".to_owned())
    }
}

/// Decodes the request of a call.
pub fn write_raw(framed: &Bytes) -> WriteRawRequest {
    assert_eq!(framed[0], 0);
    let length = u32::from_be_bytes(framed[1..5].try_into().unwrap());
    assert_eq!(length as usize, framed.len() - 5);
    WriteRawRequest::decode(framed.slice(5..)).unwrap()
}

/// Replies of Parca.
pub fn strict_parca(received: &Received) -> Reply {
    match check_write_raw(received) {
        Ok(()) => grpc_message(&[]),
        Err(error) => grpc_status(3, &error),
    }
}
