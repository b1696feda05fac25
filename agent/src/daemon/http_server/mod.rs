//! The HTTP server: metrics, health, and profiles on demand.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | metrics in the text format of Prometheus, or of `OpenMetrics` if the client accepts it |
//! | `/healthz` | whether the main loop responds |
//! | `/readyz` | whether it samples |
//! | `/quarantine` | JSON: files, processes and file systems that are left out for some minutes |
//! | `/debug/pprof/profile?seconds=N` | a profile of the next N seconds; `event=` is what it measures, `cpu` by default; with `function_names=module` functions are named with their module; `pid=` or any label, as in `service_name=web`, selects processes |
//!
//! Invariants: clients wait for the main loop, which never waits for them; requests are bounded.
//! Responses have names of functions, files and processes: the default address is loopback.

mod profile_query;
mod quarantine;
#[cfg(test)]
mod tests;

pub use self::{
    profile_query::ProfileQuery,
    quarantine::{PATH as QUARANTINE_PATH, QuarantineList, QuarantinedSubject},
};

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
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
    net::TcpListener,
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    daemon::telemetry::classic, formats::FunctionNames, profile::Kind, workers::Quarantined,
};

/// Time in which the main loop must respond to be healthy.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Capacity of the request queue.
const QUEUE_LENGTH: usize = 64;

/// A request to the main loop.
#[derive(Debug)]
pub enum Request {
    /// The metrics.
    Metrics(oneshot::Sender<String>),
    /// What is in quarantine.
    Quarantine(oneshot::Sender<Vec<Quarantined>>),
    /// A health check.
    Health(oneshot::Sender<()>),
    /// A profile.
    Profile(ProfileRequest),
}

/// A request for a profile.
#[derive(Debug)]
pub struct ProfileRequest {
    /// Its duration from now on.
    pub duration: Duration,
    /// What to measure.
    pub kind: &'static Kind,
    /// How functions are named.
    pub function_names: FunctionNames,
    /// Only this process.
    pub pid: Option<u32>,
    /// Only processes with these labels.
    pub labels: Vec<(String, String)>,
    /// Receives the profile.
    pub reply: oneshot::Sender<Vec<u8>>,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address} ({source}): choose another address with `listen`, or `off`")]
pub struct Error {
    /// The address.
    pub address: SocketAddr,
    /// The error of the kernel.
    pub source: io::Error,
}

/// The server, seen from the main loop.
#[derive(Debug)]
pub struct Listener {
    requests: mpsc::Receiver<Request>,
    /// Keeps the channel open where there is no server.
    _requests: mpsc::Sender<Request>,
    address: Option<SocketAddr>,
    server: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts the server, if an address is given; `kinds` are sampled.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound.
    pub async fn start(
        address: Option<SocketAddr>,
        kinds: Vec<&'static Kind>,
    ) -> Result<Self, Error> {
        let (sender, requests) = mpsc::channel(QUEUE_LENGTH);
        let mut listener = Self {
            requests,
            _requests: sender.clone(),
            address: None,
            server: None,
        };
        if let Some(address) = address {
            let failed = |source| Error { address, source };
            let socket = TcpListener::bind(address).await.map_err(failed)?;
            listener.address = Some(socket.local_addr().map_err(failed)?);
            let serve = axum::serve(socket, router(sender, kinds.into())).into_future();
            listener.server = Some(tokio::spawn(async {
                // It serves until the task is dropped.
                let _ = serve.await;
            }));
        }
        Ok(listener)
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The next request. Cancel safe.
    pub async fn next(&mut self) -> Request {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

/// What handlers have.
#[derive(Clone)]
struct Sender {
    requests: mpsc::Sender<Request>,
    /// What is sampled.
    kinds: Arc<[&'static Kind]>,
}

type Requests = State<Sender>;

fn router(requests: mpsc::Sender<Request>, kinds: Arc<[&'static Kind]>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(health))
        .route(QUARANTINE_PATH, get(quarantined))
        .route("/debug/pprof/profile", get(profile))
        .with_state(Sender { requests, kinds })
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
    match ask(&sender.requests, ask_for, duration + RESPONSE_TIMEOUT).await {
        Some(pprof) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (
                    header::CONTENT_DISPOSITION,
                    "attachment; filename=\"profile.pb.gz\"",
                ),
            ];
            (headers, pprof).into_response()
        }
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
