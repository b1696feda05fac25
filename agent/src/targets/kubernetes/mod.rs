//! Asks what the pods and containers of this node are called.
//!
//! ```text
//! UnknownContainers ─► API server or kubelet ─► runtime, if need be ─► PodLists
//! ```
//!
//! The API server or the kubelet lists pods with their labels, for those who may ask. What neither
//! knows is asked of the container runtime, by the interface that the kubelet itself uses: root on
//! the node may. All of this is done by a task of its own, which [`Names`] stands for.
//!
//! The list of the API server is of its cache, however old: many agents that each ask for a few
//! pods cost it little that way.
//!
//! Invariants: whoever asks never waits; what is asked is bounded in time, and what is answered in
//! size; who fails is left alone for longer and longer, and told of once, with what to do; files
//! with tokens and certificates are read again when they change.

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

use self::{
    api_server::ApiServer, kubelet::Kubelet, runtime::Runtime, source::Source, status::Shared,
    worker::Worker,
};
pub use self::{
    fetch::{Fetch, FetchError, MAX_LIST_BYTES},
    status::Status,
};
use crate::{
    http_client::{HttpConfig, HttpConfigError},
    targets::labels::pods::{PodLists, UnknownContainers},
};

/// Where the token and the certificates of a pod's service account are.
pub const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// See [`TOKEN_FILE`].
pub const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Where container runtimes listen, below the host's root: containerd, also that of k3s, k0s and
/// `MicroK8s`; CRI-O; Docker's.
pub const SOCKETS: [&str; 6] = [
    "run/containerd/containerd.sock",
    "run/k3s/containerd/containerd.sock",
    "run/k0s/containerd.sock",
    "var/snap/microk8s/common/run/containerd.sock",
    "run/crio/crio.sock",
    "run/cri-dockerd.sock",
];

/// For how long a connection is waited for, unless it is said.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For how long an answer is waited for, unless it is said.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Who is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Who lists the pods of this node, if anybody.
    pub lists: Option<Lists>,
    /// Where the container runtime may listen: the first that answers is asked.
    pub sockets: Vec<PathBuf>,
}

/// Who lists the pods of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    /// What it is.
    pub by: By,
    /// Where it is, and who we are.
    pub http: HttpConfig,
}

/// What can list the pods of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The API server of the cluster.
    ApiServer {
        /// What it calls this node.
        node: String,
    },
    /// The node's own kubelet.
    Kubelet,
}

/// The task that asks; it ends when this is dropped.
pub struct Names {
    questions: mpsc::Sender<UnknownContainers>,
    answers: mpsc::Receiver<PodLists>,
    shared: Shared,
    task: JoinHandle<()>,
}

impl Config {
    /// Whether anybody is asked.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.lists.is_some() || !self.sockets.is_empty()
    }
}

impl Names {
    /// Begins, without asking anybody yet.
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
        let (questions, asked) = mpsc::channel(1);
        let (told, answers) = mpsc::channel(1);
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
                tokio::spawn(Worker::new(Some(lists), runtime()).run(asked, told))
            }
            Some(Lists {
                by: By::Kubelet,
                http,
            }) => {
                let lists = Source::new(Kubelet::new(http)?, &shared);
                tokio::spawn(Worker::new(Some(lists), runtime()).run(asked, told))
            }
            None => tokio::spawn(Worker::<Kubelet>::new(None, runtime()).run(asked, told)),
        };
        Ok(Self {
            questions,
            answers,
            shared,
            task,
        })
    }

    /// Asks, unless a question is still waiting. Never waits.
    pub fn ask(&self, question: UnknownContainers) {
        let _ = self.questions.try_send(question);
    }

    /// The next answer; it may never come.
    pub async fn next(&mut self) -> PodLists {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    /// How those who are asked are doing.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        self.shared.status()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.task.abort();
    }
}
