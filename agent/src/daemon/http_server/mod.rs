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
mod request;
mod routes;
#[cfg(test)]
mod tests;

#[cfg(feature = "fuzzing")]
pub use self::profile_query::ProfileQuery;
pub use self::{
    quarantine::{PATH as QUARANTINE_PATH, QuarantineList, QuarantinedSubject},
    request::{ProfileRequest, Request},
};

use std::{io, net::SocketAddr};

use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};

use self::routes::router;
use crate::profile::Kind;

/// Capacity of the request queue.
const QUEUE_LENGTH: usize = 64;

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
