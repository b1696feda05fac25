//! Connections of clients, each with one request.
//!
//! Invariants: there is a limit of connections, and above it one that has not sent its request yet
//! makes room for a new one; where none does, as many again are answered that there are too many, and others are
//! closed; a client has limited time to send a request and to receive the response.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{
    Router,
    http::{StatusCode, header::RETRY_AFTER},
    response::IntoResponse,
    serve,
};
use hyper::{
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    pin, select,
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};

/// Time for the head of a request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Time to receive a response, from when it is ready.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Most bytes of the head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Accepts connections until it is dropped, at most `limit` at a time.
pub(super) async fn accept(mut listener: impl serve::Listener, router: Router, limit: usize) {
    let mut open = Connections::new(limit);
    let mut refused = Connections::new(limit);
    let refuse = Router::new().fallback(too_many);
    loop {
        let (stream, _) = listener.accept().await;
        if open.make_room() {
            open.add(stream, router.clone());
        } else if refused.make_room() {
            refused.add(stream, refuse.clone());
        }
    }
}

/// The answer to whoever is one too many.
async fn too_many() -> impl IntoResponse {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        [(RETRY_AFTER, "1")],
        "too many requests at the same time: try again\n",
    )
}

/// The open connections, the oldest first.
struct Connections {
    open: VecDeque<Connection>,
    limit: usize,
}

/// A connection, which is closed on drop.
struct Connection {
    task: JoinHandle<()>,
    /// Whether its request has arrived.
    has_request: Arc<AtomicBool>,
}

impl Connections {
    fn new(limit: usize) -> Self {
        Self {
            open: VecDeque::new(),
            limit,
        }
    }

    /// Whether there is room for another one.
    fn make_room(&mut self) -> bool {
        self.open
            .retain(|connection| !connection.task.is_finished());
        if self.open.len() < self.limit {
            return true;
        }
        let is_silent = |connection: &Connection| !connection.has_request.load(Relaxed);
        let oldest_silent = self.open.iter().position(is_silent);
        oldest_silent.is_some_and(|index| self.open.remove(index).is_some())
    }

    fn add(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        router: Router,
    ) {
        let has_request = Arc::<AtomicBool>::default();
        self.open.push_back(Connection {
            task: tokio::spawn(exchange(stream, router, Arc::clone(&has_request))),
            has_request,
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Receives the request of a connection and sends the response. What fails only concerns the client.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    has_request: Arc<AtomicBool>,
) {
    let router = TowerToHyperService::new(router);
    let is_answered = Arc::new(Notify::new());
    let service = {
        let is_answered = Arc::clone(&is_answered);
        service_fn(move |request| {
            has_request.store(true, Relaxed);
            let response = router.call(request);
            let is_answered = Arc::clone(&is_answered);
            async move {
                let response = response.await;
                is_answered.notify_one();
                response
            }
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    pin!(connection);
    select! {
        _ = &mut connection => return,
        () = is_answered.notified() => {}
    }
    let _ = timeout(WRITE_TIMEOUT, connection).await;
}
