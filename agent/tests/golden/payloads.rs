//! Requests to collectors, as text.

use std::fmt::Write as _;

use collector_doubles::{
    otlp, parca::write_raw, pyroscope::PushRequest, rules::gunzip, server::Received,
};
use prost::Message as _;

use super::md5;

/// Headers with the address of the receiver, the size of compressed data or the time.
const VARIABLE: [&str; 3] = ["host", "content-length", "date"];

/// A request to the collector `name`.
pub(super) fn dump(name: &str, received: &Received) -> String {
    let mut text = format!("{}?{}\n", received.path, received.query);
    let mut headers: Vec<_> = received.headers.iter().collect();
    headers.sort_by_key(|(name, _)| name.as_str());
    for (name, value) in headers {
        if !VARIABLE.contains(&name.as_str()) {
            writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
        }
    }
    let body = match name {
        "pyroscope" => pyroscope(received),
        "parca" => parca(received),
        "otlp_http" => opentelemetry(received),
        // The same message.
        _ => format!("request {}\n", opentelemetry_sum(received)),
    };
    text.push_str(&body);
    text
}

fn pyroscope(received: &Received) -> String {
    let mut request = PushRequest::decode(received.body.clone()).unwrap();
    assert_eq!(request.encode_to_vec(), received.body);
    let mut text = String::new();
    for sample in request.series.iter_mut().flat_map(|it| &mut it.samples) {
        sample.raw_profile = gunzip(&sample.raw_profile).unwrap();
        // It is random.
        "ID".clone_into(&mut sample.id);
    }
    for series in &request.series {
        for label in &series.labels {
            writeln!(text, "label {}={:?}", label.name, label.value).unwrap();
        }
        for sample in &series.samples {
            writeln!(text, "profile {}", md5(&sample.raw_profile)).unwrap();
        }
    }
    text + &format!("request {}\n", md5(&request.encode_to_vec()))
}

fn parca(received: &Received) -> String {
    let mut request = write_raw(&received.body);
    assert_eq!(request.encode_to_vec(), received.body[5..]);
    let mut text = format!("normalized {}\n", request.normalized);
    for sample in request.series.iter_mut().flat_map(|it| &mut it.samples) {
        sample.raw_profile = gunzip(&sample.raw_profile).unwrap();
    }
    for series in &request.series {
        for label in series.labels.iter().flat_map(|it| &it.labels) {
            writeln!(text, "label {}={:?}", label.name, label.value).unwrap();
        }
        for sample in &series.samples {
            writeln!(text, "profile {}", md5(&sample.raw_profile)).unwrap();
        }
    }
    text + &format!("request {}\n", md5(&request.encode_to_vec()))
}

fn opentelemetry_sum(received: &Received) -> String {
    md5(&otlp::request(received).encode_to_vec())
}

/// Formatted by the schema of OpenTelemetry's own crate.
fn opentelemetry(received: &Received) -> String {
    let request = otlp::request(received);
    format!("request {}\n{request:#?}\n", opentelemetry_sum(received))
}
