//! Configuration of a connection: address, TLS, authentication, headers, timeouts.

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::{
    Uri,
    header::{HeaderName, HeaderValue},
    http::uri::Scheme,
};

use super::secret::{Secret, SecretSource};

/// Configuration of a client.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Address, such as `https://pyroscope.example:4040/prefix`; the paths of requests are appended.
    pub url: String,
    /// Certificates, for `https`.
    pub tls: TlsConfig,
    /// The header `Authorization`.
    pub authentication: Authentication,
    /// Whether it may be sent unencrypted to other machines.
    pub allow_plaintext: bool,
    /// Further headers of each request; values may be secrets.
    pub headers: Vec<(String, Secret)>,
    /// Timeout of a connection, with TLS handshake.
    pub connect_timeout: Duration,
    /// Timeout of a request, without connecting.
    pub request_timeout: Duration,
}

/// Certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// PEM file with the trusted certificates; if [`None`], those of the system.
    pub ca_file: Option<PathBuf>,
    /// Certificate of the agent.
    pub client: Option<ClientCertificate>,
}

/// Certificate for servers that request one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file with the certificate and the intermediate ones.
    pub certificate_file: PathBuf,
    /// PEM file with the private key.
    pub key_file: PathBuf,
}

/// Authentication of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    #[default]
    /// No credentials.
    None,
    /// `Authorization: Bearer`.
    Bearer(SecretSource),
    /// `Authorization: Basic`.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: SecretSource,
    },
}

/// Why a configuration is invalid.
///
/// The messages do not repeat the address, which may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpConfigError {
    /// The address is malformed.
    #[error("the address must be like https://host:port/path")]
    Address,
    /// The address contains a user or a password.
    #[error("the address must not contain a user or a password")]
    Credentials,
    /// The address contains a query.
    #[error("the address must not contain a '?'")]
    Query,
    /// Credentials would be sent unencrypted.
    #[error(
        "whoever sees the traffic could read the credentials: use https://, or allow it with \
         `allow_plaintext: true`"
    )]
    Plaintext,
    /// The name of a header is malformed.
    #[error("'{name}' is not a valid header name")]
    HeaderName {
        /// The name.
        name: String,
    },
    /// The value of a header is malformed.
    #[error("the value of the header '{name}' contains invalid characters")]
    HeaderValue {
        /// The name of the header.
        name: String,
    },
}

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Whether TLS is used.
    pub(super) is_encrypted: bool,
    pub(super) endpoint: Endpoint,
    /// Host and port as in a request.
    pub(super) authority: String,
    /// Prefix of paths, without `/` at the end.
    pub(super) prefix: String,
}

/// What is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// TCP port.
    Host {
        /// Name or IP address, without brackets.
        name: String,
        port: u16,
    },
    /// Unix socket.
    Socket(PathBuf),
}

impl Address {
    pub(super) fn of_socket(path: &Path) -> Self {
        Self {
            is_encrypted: false,
            endpoint: Endpoint::Socket(path.to_owned()),
            // A path is no valid authority.
            authority: "localhost".to_owned(),
            prefix: String::new(),
        }
    }

    /// Name in messages.
    pub(super) fn name(&self) -> String {
        match &self.endpoint {
            Endpoint::Host { .. } => self.authority.clone(),
            Endpoint::Socket(path) => path.display().to_string(),
        }
    }
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An invalid address may contain a password.
        let url = self.address().map_or("…", |_| &self.url);
        formatter
            .debug_struct("HttpConfig")
            .field("url", &url)
            .field("tls", &self.tls)
            .field("authentication", &self.authentication)
            .field("allow_plaintext", &self.allow_plaintext)
            .field("headers", &self.headers)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .finish()
    }
}

impl HttpConfig {
    /// A configuration with defaults.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            tls: TlsConfig::default(),
            authentication: Authentication::None,
            allow_plaintext: false,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
        }
    }

    /// Validates the configuration.
    ///
    /// # Errors
    ///
    /// When the address or a header is malformed.
    pub fn check(&self) -> Result<(), HttpConfigError> {
        self.address()?;
        self.header_map()?;
        Ok(())
    }

    /// Parses the address.
    pub(super) fn address(&self) -> Result<Address, HttpConfigError> {
        let uri: Uri = self.url.parse().map_err(|_| HttpConfigError::Address)?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(HttpConfigError::Address);
        };
        if authority.as_str().contains('@') {
            return Err(HttpConfigError::Credentials);
        }
        if uri.query().is_some() {
            return Err(HttpConfigError::Query);
        }
        let is_encrypted = *scheme == Scheme::HTTPS;
        if !is_encrypted && *scheme != Scheme::HTTP {
            return Err(HttpConfigError::Address);
        }
        let after_host = authority.as_str().strip_prefix(authority.host());
        let port = match after_host.and_then(|rest| rest.strip_prefix(':')) {
            Some(port) => port.parse().ok().filter(|port| *port != 0),
            None if is_encrypted => Some(443),
            None => Some(80),
        };
        let port = port.ok_or(HttpConfigError::Address)?;
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(HttpConfigError::Address);
        }
        let is_visible = !is_encrypted && !is_loopback(host);
        if is_visible && !self.allow_plaintext && self.authentication != Authentication::None {
            return Err(HttpConfigError::Plaintext);
        }
        Ok(Address {
            is_encrypted,
            endpoint: Endpoint::Host {
                name: host.to_owned(),
                port,
            },
            authority: authority.as_str().to_owned(),
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// The further headers.
    pub(super) fn header_map(&self) -> Result<Vec<(HeaderName, HeaderValue)>, HttpConfigError> {
        let pairs = self.headers.iter().map(|(name, value)| {
            let header = HeaderName::try_from(name.as_str())
                .map_err(|_| HttpConfigError::HeaderName { name: name.clone() })?;
            let mut value = HeaderValue::try_from(value.reveal())
                .map_err(|_| HttpConfigError::HeaderValue { name: name.clone() })?;
            value.set_sensitive(true);
            Ok((header, value))
        });
        pairs.collect()
    }
}

/// Whether what is sent to a host stays on this machine.
fn is_loopback(host: &str) -> bool {
    let ip = host.parse::<IpAddr>();
    ip.map_or(host == "localhost", |ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let address = |url: &str| {
            let address = HttpConfig::new(url).address().unwrap();
            (address.is_encrypted, address.endpoint, address.prefix)
        };
        let expected = |tls, name: &str, port, prefix: &str| {
            let name = name.to_owned();
            (tls, Endpoint::Host { name, port }, prefix.to_owned())
        };
        assert_eq!(address("http://a"), expected(false, "a", 80, ""));
        assert_eq!(address("https://a/"), expected(true, "a", 443, ""));
        assert_eq!(
            address("https://[::1]:4040/x/y/"),
            expected(true, "::1", 4040, "/x/y")
        );
    }

    #[test]
    fn malformed_addresses_are_rejected_and_not_repeated() {
        for (url, expected) in [
            ("", HttpConfigError::Address),
            ("localhost:4040", HttpConfigError::Address),
            ("ftp://a", HttpConfigError::Address),
            ("http://", HttpConfigError::Address),
            ("http://a:0", HttpConfigError::Address),
            ("http://a:99999", HttpConfigError::Address),
            ("http://me:hunter2@a", HttpConfigError::Credentials),
            ("http://a/?key=hunter2", HttpConfigError::Query),
        ] {
            let config = HttpConfig::new(url);
            let error = config.address().unwrap_err();
            assert_eq!(error, expected, "{url}");
            assert!(!format!("{error} {error:?} {config:?}").contains("hunter2"));
        }
    }

    #[test]
    fn credentials_are_not_sent_unencrypted_to_other_machines() {
        let check = |url: &str, allow_plaintext| {
            let mut config = HttpConfig::new(url);
            config.authentication = Authentication::Bearer(SecretSource::Value(Secret::new("x")));
            config.allow_plaintext = allow_plaintext;
            config.check()
        };
        for url in [
            "http://a",
            "http://10.0.0.1:4040",
            "http://localhost.example",
        ] {
            assert_eq!(check(url, false), Err(HttpConfigError::Plaintext), "{url}");
            assert_eq!(check(url, true), Ok(()), "{url}");
            assert_eq!(HttpConfig::new(url).check(), Ok(()), "{url}");
        }
        for url in [
            "https://a",
            "http://localhost:4040",
            "http://127.1.2.3",
            "http://[::1]:80",
        ] {
            assert_eq!(check(url, false), Ok(()), "{url}");
        }
    }

    #[test]
    fn headers_are_checked() {
        let error = |name: &str, value: &str| {
            let mut config = HttpConfig::new("http://a");
            config.headers = vec![(name.to_owned(), Secret::new(value))];
            config.header_map().unwrap_err().to_string()
        };
        assert_eq!(error("a b", "x"), "'a b' is not a valid header name");
        assert!(!error("a", "hunter2\n").contains("hunter2"));
    }
}
