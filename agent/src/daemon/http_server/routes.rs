//! The paths, and how their requests are answered.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    profile_query::ProfileQuery,
    quarantine::{self, QuarantineList},
    request::{ProfileRequest, Request},
};
use crate::{daemon::telemetry::classic, profile::Kind};

/// Time in which the main loop must respond to be healthy.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for building a profile: names are waited for up to 20 s, and details for 5, where files take
/// long to read.
const BUILD_TIMEOUT: Duration = Duration::from_secs(30);

/// What handlers have.
#[derive(Clone)]
pub(super) struct Sender {
    requests: mpsc::Sender<Request>,
    /// What is sampled.
    kinds: Arc<[&'static Kind]>,
}

impl Sender {
    /// To the main loop; `kinds` are sampled.
    pub(super) fn new(requests: mpsc::Sender<Request>, kinds: Vec<&'static Kind>) -> Self {
        let kinds = kinds.into();
        Self { requests, kinds }
    }
}

type Requests = State<Sender>;

/// What anybody may see.
pub(super) fn public() -> Router<Sender> {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(health))
}

/// What has names of functions, files and processes.
pub(super) fn profiles() -> Router<Sender> {
    Router::new()
        .route(quarantine::PATH, get(quarantined))
        .route("/debug/pprof/profile", get(profile))
}

async fn metrics(State(sender): Requests, headers: HeaderMap) -> Response {
    let Some(text) = ask(&sender.requests, Request::Metrics, RESPONSE_TIMEOUT).await else {
        return busy();
    };
    let (kind, text) = if takes_openmetrics(&headers) {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        (kind, text)
    } else {
        ("text/plain; version=0.0.4; charset=utf-8", classic(&text))
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Whether the client accepts `OpenMetrics`, as Prometheus does.
fn takes_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("application/openmetrics-text"))
}

async fn quarantined(State(sender): Requests) -> Response {
    let quarantined = ask(&sender.requests, Request::Quarantine, RESPONSE_TIMEOUT).await;
    let Some(quarantined) = quarantined else {
        return busy();
    };
    // Texts and numbers can always be written.
    let json = serde_json::to_vec(&QuarantineList::new(quarantined)).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

async fn health(State(sender): Requests) -> Response {
    match ask(&sender.requests, Request::Health, RESPONSE_TIMEOUT).await {
        Some(()) => "ok\n".into_response(),
        None => busy(),
    }
}

async fn profile(
    State(sender): Requests,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let query = match ProfileQuery::parse(query, &sender.kinds) {
        Ok(query) => query,
        Err(message) => return refused(&message),
    };
    let duration = query.duration;
    let ask_for = |reply| {
        Request::Profile(ProfileRequest {
            duration,
            kind: query.kind,
            function_names: query.function_names,
            pid: query.pid,
            labels: query.labels,
            reply,
        })
    };
    let began = Instant::now();
    match ask(&sender.requests, ask_for, duration + BUILD_TIMEOUT).await {
        Some(Ok(pprof)) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (
                    header::CONTENT_DISPOSITION,
                    "attachment; filename=\"profile.pb.gz\"",
                ),
            ];
            (headers, pprof).into_response()
        }
        Some(Err(why)) => (StatusCode::NOT_FOUND, format!("{why}\n")).into_response(),
        None if began.elapsed() < duration => {
            let message = "too many profiles are in progress: try again later\n";
            (StatusCode::TOO_MANY_REQUESTS, message).into_response()
        }
        None => busy(),
    }
}

fn refused(message: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{message}\n")).into_response()
}

fn busy() -> Response {
    let message = "the agent did not answer in time\n";
    (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

/// Sends a request to the main loop and waits for its response.
async fn ask<T>(
    requests: &mpsc::Sender<Request>,
    request: impl FnOnce(oneshot::Sender<T>) -> Request,
    patience: Duration,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    requests.try_send(request(reply)).ok()?;
    timeout(patience, answer).await.ok()?.ok()
}
