//! Where somebody who speaks HTTP is, and who we are to them.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::{
    Uri,
    header::{HeaderName, HeaderValue},
    http::uri::Scheme,
};

use super::secret::{Secret, SecretSource};

/// A destination that speaks HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Its address, such as `https://pyroscope.example:4040/prefix`; what the protocol asks for is
    /// added to the path.
    pub url: String,
    /// How it is known, and we are, with `https`.
    pub tls: TlsConfig,
    /// Who we are.
    pub authentication: Authentication,
    /// What stands in each request besides; values may be secrets.
    pub headers: Vec<(String, Secret)>,
    /// For how long a connection is waited for, TLS included.
    pub connect_timeout: Duration,
    /// For how long an answer is waited for, from the connection on.
    pub request_timeout: Duration,
}

/// Certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// File with the certificates, in PEM, that alone are trusted; without one those of the system.
    pub ca_file: Option<PathBuf>,
    /// Our own.
    pub client: Option<ClientCertificate>,
}

/// What we show to those who ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// File with our certificate, in PEM, and those between it and the one that is trusted.
    pub certificate_file: PathBuf,
    /// File with its key, in PEM.
    pub key_file: PathBuf,
}

/// How we say who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// Not at all.
    #[default]
    None,
    /// `Authorization: Bearer`.
    Bearer(SecretSource),
    /// `Authorization: Basic`.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: SecretSource,
    },
}

/// Why a destination cannot be what its configuration says.
///
/// The address itself is not repeated: there may be a password in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpConfigError {
    /// The address is none.
    #[error("the address must be like https://host:port/path")]
    Address,
    /// There are a user and a password in the address.
    #[error("the address must not have a user or a password in it")]
    Credentials,
    /// There are parameters in the address.
    #[error("the address must not have a '?' in it")]
    Query,
    /// The name of a header is none.
    #[error("'{name}' cannot be the name of a header")]
    HeaderName {
        /// The name.
        name: String,
    },
    /// The value of a header is none.
    #[error("the value of the header '{name}' has characters that cannot be sent")]
    HeaderValue {
        /// The name of the header.
        name: String,
    },
}

/// A checked address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Whether TLS is spoken.
    pub(super) is_encrypted: bool,
    /// Where a connection leads.
    pub(super) endpoint: Endpoint,
    /// Host and port as they stand in a request.
    pub(super) authority: String,
    /// What paths begin with; without `/` at the end.
    pub(super) prefix: String,
}

/// Where a connection leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A port of a host.
    Host {
        /// Its name or address, without brackets.
        name: String,
        /// The port.
        port: u16,
    },
    /// A socket of this machine.
    Socket(PathBuf),
}

impl Address {
    /// A socket of this machine.
    pub(super) fn of_socket(path: &Path) -> Self {
        Self {
            is_encrypted: false,
            endpoint: Endpoint::Socket(path.to_owned()),
            // What a path is cannot stand there.
            authority: "localhost".to_owned(),
            prefix: String::new(),
        }
    }

    /// What it is called in messages.
    pub(super) fn name(&self) -> String {
        match &self.endpoint {
            Endpoint::Host { .. } => self.authority.clone(),
            Endpoint::Socket(path) => path.display().to_string(),
        }
    }
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // There may be a password in an address that will be refused.
        let url = self.address().map_or("…", |_| &self.url);
        formatter
            .debug_struct("HttpConfig")
            .field("url", &url)
            .field("tls", &self.tls)
            .field("authentication", &self.authentication)
            .field("headers", &self.headers)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .finish()
    }
}

impl HttpConfig {
    /// A destination at an address, with what is usual otherwise.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            tls: TlsConfig::default(),
            authentication: Authentication::None,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
        }
    }

    /// Says whether a connection can be tried.
    ///
    /// # Errors
    ///
    /// When the address or a header is none.
    pub fn check(&self) -> Result<(), HttpConfigError> {
        self.address()?;
        self.header_map()?;
        Ok(())
    }

    /// The address, if it is one.
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

    /// What stands in each request besides.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
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
    fn what_is_no_address_is_refused_and_not_repeated() {
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
    fn headers_are_checked() {
        let error = |name: &str, value: &str| {
            let mut config = HttpConfig::new("http://a");
            config.headers = vec![(name.to_owned(), Secret::new(value))];
            config.header_map().unwrap_err().to_string()
        };
        assert_eq!(error("a b", "x"), "'a b' cannot be the name of a header");
        assert!(!error("a", "hunter2\n").contains("hunter2"));
    }
}
