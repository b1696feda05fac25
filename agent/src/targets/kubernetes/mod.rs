//! Requests metadata of the pods and containers of this node.
//!
//! ```text
//! UnknownContainers ─► API server or kubelet ─► runtime, if need be ─► PodLists
//! ```
//!
//! The API server or the kubelet lists pods with their labels, given credentials. Containers in
//! neither list are requested from the container runtime, by the interface that the kubelet uses,
//! which only root may. A task of its own does this; [`PodMetadata`] is its handle.
//!
//! The API server's list comes from its cache, however old: so many agents with a few pods each cost
//! it little.
//!
//! Invariants: no caller waits; requests have timeouts, responses a bounded size; a source that fails
//! is retried with back-off and logged once, with what to do; files with tokens and certificates are
//! read again when they change.

mod api_server;
mod fetch;
mod kubelet;
mod runtime;
mod schema;
mod source;
mod status;
#[cfg(test)]
mod tests;
mod worker;

use std::{path::PathBuf, time::Duration};

use tokio::{sync::mpsc, task::JoinHandle};

#[cfg(feature = "fuzzing")]
pub use self::runtime::read as read_runtime;
pub use self::status::Status;
use self::{
    api_server::ApiServer, kubelet::Kubelet, runtime::Runtime, source::Source, status::Shared,
    worker::Worker,
};
use crate::{
    http_client::{HttpConfig, HttpConfigError},
    targets::labels::pods::{PodLists, UnknownContainers},
};

/// The token and the certificates of a pod's service account.
pub const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// See [`TOKEN_FILE`].
pub const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Sockets of container runtimes, below the host's root: containerd, also that of k3s, k0s and
/// `MicroK8s`; CRI-O; Docker's.
pub const SOCKETS: [&str; 6] = [
    "run/containerd/containerd.sock",
    "run/k3s/containerd/containerd.sock",
    "run/k0s/containerd.sock",
    "var/snap/microk8s/common/run/containerd.sock",
    "run/crio/crio.sock",
    "run/cri-dockerd.sock",
];

/// Default timeout of connecting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Default timeout of a request.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Sources of pod metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The list of the pods of this node, if it is requested.
    pub lists: Option<Lists>,
    /// Where the container runtime may listen: the first that responses is pending.
    pub sockets: Vec<PathBuf>,
}

/// A list of the pods of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    /// Its source.
    pub by: By,
    /// Its address and the credentials.
    pub http: HttpConfig,
}

/// A source of lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The API server of the cluster.
    ApiServer {
        /// The name of this node.
        node: String,
    },
    /// The kubelet of this node.
    Kubelet,
}

/// Handle of the task that requests lists, which ends when this is dropped.
pub struct PodMetadata {
    requests: mpsc::Sender<UnknownContainers>,
    responses: mpsc::Receiver<PodLists>,
    shared: Shared,
    task: JoinHandle<()>,
}

impl Config {
    /// Whether there is any source.
    #[must_use]
    pub fn has_source(&self) -> bool {
        self.lists.is_some() || !self.sockets.is_empty()
    }
}

impl PodMetadata {
    /// Starts the task, which sends no request yet.
    ///
    /// # Errors
    ///
    /// When an address is none. That nobody is there, or a token is not, is no error: both may
    /// come.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub fn start(config: &Config) -> Result<Self, HttpConfigError> {
        let shared = Shared::default();
        let (requests, pending) = mpsc::channel(1);
        let (sender, responses) = mpsc::channel(1);
        let runtime = || {
            let sockets = config.sockets.clone();
            (!sockets.is_empty()).then(|| Source::new(Runtime::new(sockets), &shared))
        };
        let task = match config.lists.clone() {
            Some(Lists {
                by: By::ApiServer { node },
                http,
            }) => {
                let lists = Source::new(ApiServer::new(http, &node)?, &shared);
                tokio::spawn(Worker::new(Some(lists), runtime()).run(pending, sender))
            }
            Some(Lists {
                by: By::Kubelet,
                http,
            }) => {
                let lists = Source::new(Kubelet::new(http)?, &shared);
                tokio::spawn(Worker::new(Some(lists), runtime()).run(pending, sender))
            }
            None => tokio::spawn(Worker::<Kubelet>::new(None, runtime()).run(pending, sender)),
        };
        Ok(Self {
            requests,
            responses,
            shared,
            task,
        })
    }

    /// Requests lists, unless a request is pending. Never waits.
    pub fn request(&self, containers: UnknownContainers) {
        let _ = self.requests.try_send(containers);
    }

    /// The next lists, which may never come. Cancel safe.
    pub async fn next(&mut self) -> PodLists {
        match self.responses.recv().await {
            Some(lists) => lists,
            None => std::future::pending().await,
        }
    }

    /// The counters of all sources.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        self.shared.status()
    }
}

impl Drop for PodMetadata {
    fn drop(&mut self) {
        self.task.abort();
    }
}
