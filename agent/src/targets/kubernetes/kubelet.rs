//! The node's kubelet: all its pods at once, static pods included.
//!
//! Its port 10250 needs a token and TLS; its read-only port 10255, where enabled, neither.

use tokio::task::spawn_blocking;

use super::fetch::{Fetch, FetchError, MAX_LIST_BYTES};
use crate::{
    http_client::{Client, HttpConfig, HttpConfigError, HttpErrorKind, HttpProtocol},
    targets::labels::pods::PodList,
};

/// The kubelet.
pub(super) struct Kubelet {
    client: Client,
}

impl Kubelet {
    pub(super) fn new(http: HttpConfig) -> Result<Self, HttpConfigError> {
        let client =
            Client::new(http, HttpProtocol::Http1)?.with_max_response_bytes(MAX_LIST_BYTES);
        Ok(Self { client })
    }
}

impl Fetch for Kubelet {
    const NAME: &'static str = "kubelet";

    async fn fetch(&self) -> Result<PodList, FetchError> {
        let document = self.client.get("/pods").await?;
        // As with the API server.
        Ok(spawn_blocking(move || PodList::parse(&document)).await??)
    }

    fn advice(kind: HttpErrorKind) -> Option<&'static str> {
        match kind {
            HttpErrorKind::Unauthorized => Some(
                "the kubelet authenticates tokens only with \
                 --authentication-token-webhook",
            ),
            HttpErrorKind::Forbidden => Some(
                "allow the agent's service account to get nodes/pods, before Kubernetes 1.33 \
                 nodes/proxy: deploy/kubernetes/cluster-role.yaml has both, commented out",
            ),
            HttpErrorKind::Credentials => Some(
                "the token of the service account must be in the pod: set \
                 automountServiceAccountToken, or name its file in `kubernetes`",
            ),
            HttpErrorKind::Tls => Some(
                "a kubelet that signs its own certificate keeps it in /var/lib/kubelet/pki/kubelet.crt \
                 of the node: name that as `ca_file`, or ask the API server",
            ),
            _ => None,
        }
    }
}
