//! Where the HTTP server listens, and whom it answers.

use std::{net::SocketAddr, path::PathBuf};

/// Default address. The port is unassigned at IANA (7130 to 7160 are), below the ports that the kernel
/// assigns to clients, and no profiler's or exporter's: Parca has 7070, Parca's agent 7071.
const ADDRESS: &str = "127.0.0.1:7147";

/// The HTTP server of a validated configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpServer {
    /// TCP address of metrics and health, if there is one.
    pub address: Option<SocketAddr>,
    /// Unix socket of everything, if there is one.
    pub socket: Option<SocketPath>,
    /// Names of this server in requests over TCP, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The file of the token with which profiles are served over TCP too.
    pub token_file: Option<PathBuf>,
}

/// Path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath {
    /// The path.
    pub path: PathBuf,
    /// Whether it is not configured: then the agent works without it.
    pub is_default: bool,
}

impl HttpServer {
    /// Checks the keys `listen`, `socket`, `http_hosts` and `http_token_file`.
    ///
    /// # Errors
    ///
    /// The key, and what is wrong with it.
    pub(super) fn checked(
        listen: Option<&str>,
        socket: Option<PathBuf>,
        default_socket: Option<PathBuf>,
        hosts: Vec<String>,
        token_file: Option<PathBuf>,
    ) -> Result<Self, (&'static str, String)> {
        let address = match listen.unwrap_or(ADDRESS) {
            "off" => None,
            address => Some(address.parse().map_err(|_| {
                let message = format!("is `{address}`: write it as {ADDRESS}, or off");
                ("listen", message)
            })?),
        };
        let socket = match socket {
            Some(path) if path.as_os_str() == "off" => None,
            Some(path) if !path.is_absolute() => {
                let message = format!("is `{}`: it must begin with /, or be off", path.display());
                return Err(("socket", message));
            }
            Some(path) => Some(SocketPath {
                path,
                is_default: false,
            }),
            None => default_socket.map(|path| SocketPath {
                path,
                is_default: true,
            }),
        };
        if let Some(host) = hosts.iter().find(|host| !is_host_name(host)) {
            let message =
                format!("has `{host}`: names have no port, only letters, digits, . and -");
            return Err(("http_hosts", message));
        }
        Ok(Self {
            address,
            socket,
            hosts,
            token_file,
        })
    }
}

fn is_host_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}
