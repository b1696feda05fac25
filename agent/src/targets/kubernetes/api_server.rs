//! The API server of the cluster: the pods of this node, page by page.

use std::fmt::Write as _;

use tokio::task::spawn_blocking;

use super::fetch::{Fetch, FetchError, MAX_LIST_BYTES};
use crate::{
    http_client::{Client, HttpConfig, HttpConfigError, HttpErrorKind, HttpProtocol},
    targets::labels::pods::PodList,
};

/// Pods of a page, where the server gives pages.
const PAGE: u32 = 250;

/// Most pages.
const MAX_PAGES: usize = 64;

/// The API server.
pub(super) struct ApiServer {
    client: Client,
    path: String,
}

impl ApiServer {
    /// A client for the pods of this node.
    pub(super) fn new(http: HttpConfig, node: &str) -> Result<Self, HttpConfigError> {
        let client =
            Client::new(http, HttpProtocol::Http1)?.with_max_response_bytes(MAX_LIST_BYTES);
        let node = encoded(node);
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&limit={PAGE}");
        Ok(Self { client, path })
    }

    async fn list(&self) -> Result<PodList, FetchError> {
        let mut list = PodList::default();
        let mut room = MAX_LIST_BYTES;
        // A list from its cache is enough; continuation tokens name their version themselves.
        let mut path = format!("{}&resourceVersion=0", self.path);
        for _ in 0..MAX_PAGES {
            let page = self.client.get(&path).await?;
            room = room.checked_sub(page.len()).ok_or(FetchError::TooLong)?;
            // Parsing takes milliseconds, too long for the thread that drains the ring buffer.
            let read = spawn_blocking(move || list.read_page(&page).map(|next| (list, next)));
            let (read, next) = read.await??;
            list = read;
            let Some(next) = next else {
                return Ok(list);
            };
            path = format!("{}&continue={}", self.path, encoded(&next));
        }
        Err(FetchError::TooLong)
    }
}

impl Fetch for ApiServer {
    const NAME: &'static str = "api_server";

    async fn fetch(&self) -> Result<PodList, FetchError> {
        match self.list().await {
            Err(error) if error.is_expired() => self.list().await,
            result => result,
        }
    }

    fn advice(kind: HttpErrorKind) -> Option<&'static str> {
        match kind {
            HttpErrorKind::Unauthorized => Some(
                "the token of the service account is not one of this cluster, or was revoked: start \
                 the pod again",
            ),
            HttpErrorKind::Forbidden => Some(
                "allow the agent's service account to list pods: bind it to a ClusterRole as in \
                 deploy/kubernetes",
            ),
            HttpErrorKind::Credentials => Some(
                "the token and the certificate of the service account must be in the pod: set \
                 automountServiceAccountToken, or name their files in `kubernetes`",
            ),
            HttpErrorKind::Tls => Some("name the file with the cluster's certificate: `ca_file`"),
            _ => None,
        }
    }
}

/// Percent-encodes the value of a query parameter.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn what_stands_for_itself_is_left() {
        assert_eq!(encoded("node-1.example"), "node-1.example");
        assert_eq!(encoded("a=b&c d/é+"), "a%3Db%26c%20d%2F%C3%A9%2B");
    }
}
