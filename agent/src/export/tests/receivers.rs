//! Pyroscope and Parca as strict as they are, or stricter.

use std::{collections::BTreeMap, io::Read as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flate2::read::GzDecoder;
use prost::Message as _;

use super::{
    server::{Received, Reply, Server, grpc_message, grpc_status, status},
    *,
};
use crate::export::{Authentication, FileConfig, Secret, SecretSource};

/// `push.v1.PushRequest`, and with other numbers Parca's `WriteRawRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<RawProfileSeries>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawProfileSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    raw_profile: Vec<u8>,
    #[prost(string, tag = "2")]
    id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WriteRawRequest {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(message, repeated, tag = "2")]
    series: Vec<ParcaSeries>,
    #[prost(bool, tag = "3")]
    normalized: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ParcaSeries {
    #[prost(message, optional, tag = "1")]
    labels: Option<LabelSet>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LabelSet {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
}

/// Of a pprof what has rules.
#[derive(Clone, PartialEq, prost::Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<WithId>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<WithId>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<WithId>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WithId {
    #[prost(uint64, tag = "1")]
    id: u64,
}

/// What both collectors say of a profile.
fn check_pprof(raw: &[u8]) -> Result<(), String> {
    let mut bytes = Vec::new();
    let read = GzDecoder::new(raw).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() > 4 << 20 {
        return Err("profile too big".to_owned());
    }
    let profile = Pprof::decode(&*bytes).map_err(|error| error.to_string())?;
    for table in [&profile.mapping, &profile.location, &profile.function] {
        if !(1..).zip(table).all(|(id, entry)| entry.id == id) {
            return Err("ids are not 1, 2, 3".to_owned());
        }
    }
    for value_type in &profile.sample_type {
        let index = usize::try_from(value_type.r#type).map_err(|error| error.to_string())?;
        let name = profile.string_table.get(index).ok_or("no such text")?;
        if name.contains('-') {
            return Err("sample type contains -".to_owned());
        }
    }
    Ok(())
}

/// What both collectors say of labels.
fn check_labels(labels: &[LabelPair]) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for LabelPair { name, value } in labels {
        let mut characters = name.chars();
        let first = characters.next().ok_or("empty label name")?;
        let is_first = first.is_ascii_alphabetic() || first == '_';
        if !is_first || !characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("invalid label name '{name}'"));
        }
        if name.len() > 1_024 || value.len() > 2_048 {
            return Err(format!("label '{name}' too long"));
        }
        if seen.insert(name.clone(), value.clone()).is_some() {
            return Err(format!("duplicate label name '{name}'"));
        }
    }
    if seen.len() > 30 {
        return Err("too many label names".to_owned());
    }
    match seen.get("__name__").map(String::as_str) {
        Some("process_cpu") => {}
        other => return Err(format!("invalid metric name {other:?}")),
    }
    match seen.get("service_name") {
        Some(name) if !name.is_empty() => Ok(()),
        _ => Err("service name is not provided".to_owned()),
    }
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
        check_labels(&series.labels)?;
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

/// A Pyroscope.
pub(super) fn strict_pyroscope(received: &Received) -> Reply {
    match check_push(received) {
        Ok(()) => status(200, ""),
        Err(error) => status(400, &error),
    }
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
        check_labels(&labels.labels)?;
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

fn write_raw(framed: &Bytes) -> WriteRawRequest {
    assert_eq!(framed[0], 0);
    let length = u32::from_be_bytes(framed[1..5].try_into().unwrap());
    assert_eq!(length as usize, framed.len() - 5);
    WriteRawRequest::decode(framed.slice(5..)).unwrap()
}

/// A Parca.
pub(super) fn strict_parca(received: &Received) -> Reply {
    match check_write_raw(received) {
        Ok(()) => grpc_message(&[]),
        Err(error) => grpc_status(3, &error),
    }
}

/// The services that a Pyroscope was sent profiles of, in their order.
pub(super) fn services(received: &[Received]) -> Vec<String> {
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

/// A report whose labels are as bad as labels get.
fn hostile() -> Report {
    let mut report = support::report("größe \"x\"\n", &pprof());
    let mut labels = (*report.labels).clone();
    for (name, value) in [
        ("container.id", "abc"),
        ("container_id", "another"),
        ("", "x"),
        ("__hidden__", "x"),
        ("1 2\n3", "x"),
        ("empty", ""),
    ] {
        labels.insert(name.to_owned(), value.to_owned());
    }
    for number in 0..50 {
        labels.insert(format!("z.{number}"), "é".repeat(5_000));
    }
    report.labels = labels.into();
    report
}

#[tokio::test]
async fn pyroscope_gets_what_was_sent() {
    let server = Server::start(strict_pyroscope).await;
    let mut config = pyroscope(&format!("{}/prefix/", server.url()));
    let To::Pyroscope(to) = &mut config.to else {
        unreachable!()
    };
    to.tenant = Some("team-a".to_owned());
    to.http.headers = vec![("X-Extra".to_owned(), Secret::new("extra"))];
    to.http.authentication = Authentication::Basic {
        user: "me".to_owned(),
        password: SecretSource::Value(Secret::new("hunter2")),
    };
    let exporters = start(config);
    exporters.push(&hostile());
    exporters.push(&numbered(1));
    let counts = checked(&exporters.shut_down(Duration::from_secs(60)).await[0]);
    assert_eq!((counts.delivered, counts.attempts), (2, 2), "{counts:?}");

    let received = server.received();
    assert_eq!(received[0].path, "/prefix/push.v1.PusherService/Push");
    assert_eq!(received[0].header("x-scope-orgid"), "team-a");
    assert_eq!(received[0].header("x-extra"), "extra");
    assert_eq!(
        received[0].header("authorization"),
        format!("Basic {}", STANDARD.encode("me:hunter2"))
    );
    assert_eq!(services(&received), ["größe \"x\"", "service 001"]);
    for one in &received {
        let request = PushRequest::decode(one.body.clone()).unwrap();
        assert_eq!(request.series[0].samples[0].raw_profile, pprof());
    }
    // One connection is enough.
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn parca_gets_what_was_sent() {
    let server = Server::start(strict_parca).await;
    let mut config = parca(&server.url());
    let To::Parca(to) = &mut config.to else {
        unreachable!()
    };
    to.http.headers = vec![("projectID".to_owned(), Secret::new("project"))];
    to.http.authentication = Authentication::Bearer(SecretSource::Value(Secret::new("token")));
    let exporters = start(config);
    exporters.push(&hostile());
    exporters.push(&numbered(1));
    let status = &exporters.shut_down(Duration::from_secs(60)).await[0];
    let counts = checked(status);
    assert_eq!((counts.delivered, counts.attempts), (2, 2), "{status:?}");

    let received = server.received();
    assert_eq!(received[0].header("projectid"), "project");
    assert_eq!(received[0].header("authorization"), "Bearer token");
    for one in &received {
        let request = write_raw(&one.body);
        assert!(request.normalized);
        assert_eq!(request.series[0].samples[0].raw_profile, pprof());
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_folder_gets_what_was_sent() {
    let temporary = tempfile::tempdir().unwrap();
    let exporters = start(exporter(To::File(FileConfig {
        folder: temporary.path().to_owned(),
        limit_bytes: 1 << 20,
        greatest_age: Duration::from_secs(3_600),
    })));
    exporters.push(&numbered(1));
    let counts = checked(&exporters.shut_down(Duration::from_secs(60)).await[0]);
    assert_eq!(counts.delivered, 1);
    let files: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().collect();
    let path = files[0].as_ref().unwrap().path();
    assert_eq!(std::fs::read(path).unwrap(), pprof());
}

#[tokio::test]
async fn a_profile_that_breaks_the_rules_is_refused_by_these_servers() {
    let server = Server::start(strict_pyroscope).await;
    let exporters = start(pyroscope(&server.url()));
    exporters.push(&support::report("a", b"not gzip"));
    exporters.push(&large(5 << 20));
    let status = &exporters.shut_down(Duration::from_secs(60)).await[0];
    let counts = checked(status);
    assert_eq!((counts.dropped.rejected, counts.attempts), (2, 2));
    assert_eq!(
        status.last_failure.as_deref(),
        Some("the answer was HTTP status 400: profile too big")
    );
}
