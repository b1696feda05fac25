//! Answers whoever asks over HTTP how the agent is doing, or for a profile.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | metrics, as Prometheus takes them: as `OpenMetrics` for those who ask for it |
//! | `/healthz` | whether the agent goes on |
//! | `/readyz` | whether it samples |
//! | `/debug/pprof/profile?seconds=N` | a profile of the next N seconds; `pid=` or any label, as in `service_name=web`, chooses processes |
//!
//! Invariants: whoever asks waits, and the agent never does; what is asked for is bounded. There
//! are no secrets in what is answered but names of functions, files and processes: the address is
//! one of this machine alone unless it is said otherwise.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
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

use crate::daemon::telemetry::classic;

/// How long the loop may take to answer before it is not healthy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests that may wait.
const WAITING: usize = 64;

/// Seconds of a profile for which none are given, and the most.
const SECONDS: f64 = 30.0;
const MAX_SECONDS: f64 = 300.0;

/// What somebody asks for.
#[derive(Debug)]
pub enum Request {
    /// The metrics.
    Metrics(oneshot::Sender<String>),
    /// A sign of life.
    Health(oneshot::Sender<()>),
    /// A profile.
    Profile(ProfileRequest),
}

/// A profile that somebody asks for.
#[derive(Debug)]
pub struct ProfileRequest {
    /// Of so long, from now on.
    pub duration: Duration,
    /// Of this process alone.
    pub pid: Option<u32>,
    /// Of processes with these labels alone.
    pub labels: Vec<(String, String)>,
    /// Who waits for it.
    pub reply: oneshot::Sender<Vec<u8>>,
}

/// Why nobody can ask.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address} ({source}): choose another address with `listen`, or `off`")]
pub struct Error {
    /// The address.
    pub address: SocketAddr,
    /// What the kernel said.
    pub source: io::Error,
}

/// Hears what is asked.
#[derive(Debug)]
pub struct Listener {
    requests: mpsc::Receiver<Request>,
    /// Kept, so that the channel stays open when nobody listens.
    _requests: mpsc::Sender<Request>,
    address: Option<SocketAddr>,
    server: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens at an address, if there is one.
    ///
    /// # Errors
    ///
    /// When the address cannot be had.
    pub async fn start(address: Option<SocketAddr>) -> Result<Self, Error> {
        let (sender, requests) = mpsc::channel(WAITING);
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
            let serve = axum::serve(socket, router(sender)).into_future();
            listener.server = Some(tokio::spawn(async {
                // It never ends by itself.
                let _ = serve.await;
            }));
        }
        Ok(listener)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// What is asked next. It may be dropped at any time and called again.
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

type Requests = State<mpsc::Sender<Request>>;

fn router(requests: mpsc::Sender<Request>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(health))
        .route("/debug/pprof/profile", get(profile))
        .with_state(requests)
}

async fn metrics(State(requests): Requests, headers: HeaderMap) -> Response {
    let Some(text) = ask(&requests, Request::Metrics, PATIENCE).await else {
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

/// Whether who asks names the format, as Prometheus does.
fn takes_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("application/openmetrics-text"))
}

async fn health(State(requests): Requests) -> Response {
    match ask(&requests, Request::Health, PATIENCE).await {
        Some(()) => "ok\n".into_response(),
        None => busy(),
    }
}

async fn profile(
    State(requests): Requests,
    Query(mut query): Query<BTreeMap<String, String>>,
) -> Response {
    let seconds = match query.remove("seconds").map(|text| text.parse()) {
        None => SECONDS,
        Some(Ok(seconds)) if seconds > 0.0 && seconds <= MAX_SECONDS => seconds,
        Some(_) => return refused("seconds must be a number up to 300"),
    };
    let Ok(pid) = query.remove("pid").map(|text| text.parse()).transpose() else {
        return refused("pid must be the id of a process");
    };
    let duration = Duration::from_secs_f64(seconds);
    let ask_for = |reply| {
        Request::Profile(ProfileRequest {
            duration,
            pid,
            labels: query.into_iter().collect(),
            reply,
        })
    };
    let began = Instant::now();
    match ask(&requests, ask_for, duration + PATIENCE).await {
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
            let message = "too many profiles are being made: try again later\n";
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

/// Asks, and waits for the answer.
async fn ask<T>(
    requests: &mpsc::Sender<Request>,
    request: impl FnOnce(oneshot::Sender<T>) -> Request,
    patience: Duration,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    requests.try_send(request(reply)).ok()?;
    timeout(patience, answer).await.ok()?.ok()
}
