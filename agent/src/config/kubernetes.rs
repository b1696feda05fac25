//! The source of pod metadata as it is written in a configuration.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::quantities::Time;
use crate::{
    export::{Authentication, HttpConfig, SecretSource, TlsConfig},
    targets::kubernetes::{
        By, CA_FILE, CONNECT_TIMEOUT, Config, Lists, SOCKETS, TIMEOUT, TOKEN_FILE,
    },
};

/// The authenticated port of the kubelet.
const KUBELET_PORT: u16 = 10250;

/// The value that turns the runtime off.
const OFF: &str = "off";

/// The key `kubernetes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Written {
    from: Option<From>,
    url: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    connect_timeout: Option<Time>,
    timeout: Option<Time>,
    runtime: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum From {
    ApiServer,
    Kubelet,
    Off,
}

/// The cluster, from the environment of the pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster<'a> {
    /// Host of the API server.
    pub(super) host: Option<&'a str>,
    /// Its port.
    pub(super) port: Option<&'a str>,
    /// Name of this node.
    pub(super) node: Option<&'a str>,
}

impl Written {
    /// The validated source, or what is not valid: by default the API server in a cluster, else none.
    pub(super) fn checked(self, cluster: &Cluster, host_root: &Path) -> Result<Config, String> {
        let from = match self.from {
            Some(from) => from,
            None if cluster.host.is_some() && cluster.node.is_some() => From::ApiServer,
            None => From::Off,
        };
        let sockets = match self.runtime.as_deref() {
            Some(OFF) => Vec::new(),
            Some(socket) => vec![below(host_root, Path::new(socket))],
            None => SOCKETS
                .map(|socket| below(host_root, Path::new(socket)))
                .into(),
        };
        let lists = match from {
            From::Off => None,
            From::ApiServer => {
                let node = cluster
                    .node
                    .ok_or("needs `node`, or the variable NODE_NAME")?;
                let url = match (&self.url, cluster.host) {
                    (Some(url), _) => url.clone(),
                    (None, Some(host)) => address(host, cluster.port.unwrap_or("443")),
                    (None, None) => return Err("needs a `url` outside of a cluster".to_owned()),
                };
                let node = node.to_owned();
                Some(self.lists(By::ApiServer { node }, url)?)
            }
            From::Kubelet => {
                let url = match (&self.url, cluster.node) {
                    (Some(url), _) => url.clone(),
                    (None, Some(node)) => address(node, &KUBELET_PORT.to_string()),
                    (None, None) => return Err("needs a `url`, or `node`".to_owned()),
                };
                Some(self.lists(By::Kubelet, url)?)
            }
        };
        Ok(Config { lists, sockets })
    }

    fn lists(self, by: By, url: String) -> Result<Lists, String> {
        let mut http = HttpConfig::new(url);
        // No credentials without TLS; the kubelet's read-only port needs none.
        if http.url.starts_with("https:") {
            http.tls = TlsConfig {
                ca_file: Some(self.ca_file.unwrap_or_else(|| CA_FILE.into())),
                client: None,
            };
            let token = self.token_file.unwrap_or_else(|| TOKEN_FILE.into());
            http.authentication = Authentication::Bearer(SecretSource::File(token));
        }
        http.connect_timeout = self.connect_timeout.map_or(CONNECT_TIMEOUT, |time| time.0);
        http.request_timeout = self.timeout.map_or(TIMEOUT, |time| time.0);
        http.check()
            .map_err(|error| format!("has a `url` that cannot be used: {error}"))?;
        Ok(Lists { by, http })
    }
}

/// A path of the host, as the agent sees it.
fn below(host_root: &Path, path: &Path) -> PathBuf {
    host_root.join(path.strip_prefix("/").unwrap_or(path))
}

/// A URL; IPv6 addresses are written in brackets.
fn address(host: &str, port: &str) -> String {
    if host.contains(':') {
        format!("https://[{host}]:{port}")
    } else {
        format!("https://{host}:{port}")
    }
}
