//! The HTTP server: metrics, health, and profiles on demand.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | metrics in the text format of Prometheus, or of `OpenMetrics` if the client accepts it |
//! | `/healthz` | whether the main loop responds |
//! | `/readyz` | whether it samples |
//! | `/quarantine` | JSON: files, processes and file systems that are left out for some minutes |
//! | `/debug/pprof/profile?seconds=N` | a profile of the next N seconds; `event=` is what it measures, `cpu` by default; with `function_names=module` functions are named with their module; `pid=` or any label, as in `service_name=web`, selects processes: 404 if there is none |
//!
//! The Unix socket has all of them. Over TCP there are the first three, and with a token the others,
//! whose responses have names of functions, files and processes of all users.
//!
//! Invariants: clients wait for the main loop, which never waits for them; requests and connections
//! are bounded in number, size and time.

mod access;
mod connections;
mod error;
mod profile_query;
mod quarantine;
mod request;
mod routes;
#[cfg(test)]
mod tests;
mod unix_socket;

pub use self::error::Error;
#[cfg(feature = "fuzzing")]
pub use self::profile_query::ProfileQuery;
pub use self::{
    quarantine::{PATH as QUARANTINE_PATH, QuarantineList, QuarantinedSubject},
    request::{NoSuchTarget, ProfileRequest, Request},
};

use std::{net::SocketAddr, path::Path};

use axum::{Router, middleware::from_fn_with_state};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tracing::{info, warn};

use self::{connections::accept, routes::Sender, unix_socket::SocketName};
use crate::{
    config::{HttpServer, SocketPath},
    http_client::SecretSource,
    profile::Kind,
};

/// Capacity of the request queue.
const QUEUE_LENGTH: usize = 64;

/// Most connections over TCP, and most at the Unix socket, which those do not crowd out.
const MAX_TCP_CONNECTIONS: usize = 64;
const MAX_SOCKET_CONNECTIONS: usize = 16;

/// Least number of characters of a token.
const MIN_TOKEN_LENGTH: usize = 16;

/// The server, seen from the main loop.
#[derive(Debug)]
pub struct Listener {
    requests: mpsc::Receiver<Request>,
    /// Keeps the channel open where there is no server.
    _requests: mpsc::Sender<Request>,
    address: Option<SocketAddr>,
    servers: Vec<JoinHandle<()>>,
    socket: Option<SocketName>,
}

impl Listener {
    /// Starts the server where it is configured; `kinds` are sampled. A default socket that cannot be
    /// listened at is left out.
    ///
    /// # Errors
    ///
    /// When an address or a path cannot be bound, or the token cannot be read.
    pub async fn start(config: &HttpServer, kinds: Vec<&'static Kind>) -> Result<Self, Error> {
        let (requests, receiver) = mpsc::channel(QUEUE_LENGTH);
        let sender = Sender::new(requests.clone(), kinds);
        let mut listener = Self {
            requests: receiver,
            _requests: requests,
            address: None,
            servers: Vec::new(),
            socket: None,
        };
        if let Some(path) = &config.socket {
            listener.serve_socket(path, &sender)?;
        }
        if let Some(address) = config.address {
            let router = tcp_router(config, sender)?;
            listener.serve_tcp(address, router).await?;
        }
        Ok(listener)
    }

    /// Whether the server could start, but for what listens at its address now.
    ///
    /// # Errors
    ///
    /// When the token cannot be read.
    pub fn check(config: &HttpServer) -> Result<(), Error> {
        config.token_file.as_deref().map(token).transpose()?;
        Ok(())
    }

    /// Listens at the Unix socket.
    fn serve_socket(&mut self, at: &SocketPath, sender: &Sender) -> Result<(), Error> {
        let path = &at.path;
        let (socket, name) = match unix_socket::listen_at(path) {
            Ok(socket) => socket,
            Err(error) if at.is_default => {
                warn!(
                    "profiles on demand are not served at '{}': {error}",
                    path.display()
                );
                return Ok(());
            }
            Err(source) => {
                let path = path.clone();
                return Err(Error::Socket { path, source });
            }
        };
        info!(socket = %path.display(), "listening");
        let router = Router::new()
            .merge(routes::public())
            .merge(routes::profiles())
            .with_state(sender.clone());
        let serve = accept(socket, router, MAX_SOCKET_CONNECTIONS);
        self.servers.push(tokio::spawn(serve));
        self.socket = Some(name);
        Ok(())
    }

    /// Listens at the TCP address.
    async fn serve_tcp(&mut self, address: SocketAddr, router: Router) -> Result<(), Error> {
        let failed = |source| Error::Address { address, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        info!(%address, "listening");
        let serve = accept(socket, router, MAX_TCP_CONNECTIONS);
        self.servers.push(tokio::spawn(serve));
        self.address = Some(address);
        Ok(())
    }

    /// The bound address.
    #[cfg(test)]
    fn address(&self) -> Option<SocketAddr> {
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

/// What is served over TCP.
fn tcp_router(config: &HttpServer, sender: Sender) -> Result<Router, Error> {
    let token = config.token_file.as_deref().map(token).transpose()?;
    let profiles = routes::profiles().route_layer(from_fn_with_state(token, access::check_token));
    let names: access::HostNames = config.hosts.clone().into();
    Ok(Router::new()
        .merge(routes::public())
        .merge(profiles)
        .layer(from_fn_with_state(names, access::check_host))
        .with_state(sender))
}

/// A usable token.
fn token(file: &Path) -> Result<SecretSource, Error> {
    let token = SecretSource::File(file.to_owned());
    if token.read()?.length() < MIN_TOKEN_LENGTH {
        let least = MIN_TOKEN_LENGTH;
        return Err(Error::ShortToken { least });
    }
    Ok(token)
}

impl Drop for Listener {
    fn drop(&mut self) {
        for server in &self.servers {
            server.abort();
        }
    }
}
