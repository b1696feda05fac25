//! Pyroscope.

use prost::Message as _;

use super::{
    rules::{check_labels, check_pprof},
    server::{Received, Reply, status},
};

/// `push.v1.PushRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    pub series: Vec<RawProfileSeries>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RawProfileSeries {
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<LabelPair>,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LabelPair {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    pub raw_profile: Vec<u8>,
    #[prost(string, tag = "2")]
    pub id: String,
}

/// Labels as pairs.
pub fn pairs(labels: &[LabelPair]) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().map(|label| (&*label.name, &*label.value))
}

fn check_push(received: &Received) -> Result<(), String> {
    if !received.path.ends_with("/push.v1.PusherService/Push") {
        return Err(format!("no such path: {}", received.path));
    }
    if received.header("content-type") != "application/proto" {
        return Err("unsupported type".to_owned());
    }
    let request = PushRequest::decode(received.body.clone()).map_err(|error| error.to_string())?;
    for series in &request.series {
        check_labels(pairs(&series.labels))?;
        for sample in &series.samples {
            let parts: Vec<_> = sample.id.split('-').map(str::len).collect();
            if parts != [8, 4, 4, 4, 12] {
                return Err(format!("invalid UUID {}", sample.id));
            }
            check_pprof(&sample.raw_profile)?;
        }
    }
    Ok(())
}

/// Replies of Pyroscope.
pub fn strict_pyroscope(received: &Received) -> Reply {
    match check_push(received) {
        Ok(()) => status(200, ""),
        Err(error) => status(400, &error),
    }
}

/// The services in requests to Pyroscope, in order.
pub fn services(received: &[Received]) -> Vec<String> {
    let requests = received
        .iter()
        .map(|one| PushRequest::decode(one.body.clone()).unwrap());
    requests
        .map(|request| {
            let labels = &request.series[0].labels;
            let service = labels.iter().find(|label| label.name == "service_name");
            service.unwrap().value.clone()
        })
        .collect()
}
