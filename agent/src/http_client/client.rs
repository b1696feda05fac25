//! A client of one address, which keeps the connections of a few requests.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Uri, Version,
    body::Incoming,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT},
    http::uri::{Authority, PathAndQuery, Scheme},
};
use tokio::time::timeout;

use super::{
    authentication::{Credentials, read},
    config::{Address, Authentication, HttpConfig, HttpConfigError},
    connect::Connection,
    failure::HttpError,
    redactor::Redactor,
    response::Response,
    tls::{HttpProtocol, Tls},
};

/// Default limit of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Most connections that are kept; so many requests at a time need no others.
pub(crate) const MAX_CONNECTIONS: usize = 4;

/// Value of `User-Agent`.
const USER_AGENT_VALUE: &str = concat!("agent/", env!("CARGO_PKG_VERSION"));

/// A client of one server.
pub(crate) struct Client {
    address: Address,
    version: HttpProtocol,
    authentication: Authentication,
    headers: Vec<(HeaderName, HeaderValue)>,
    connect_timeout: Duration,
    request_timeout: Duration,
    max_response_bytes: usize,
    tls: Option<Arc<Mutex<Tls>>>,
    /// The connections without a request in flight, the last one used last.
    idle: Mutex<Vec<Connection>>,
}

/// A request.
pub(crate) struct Request<'a> {
    /// Path below the address; begins with `/`.
    pub(crate) path: &'a str,
    /// Headers of the protocol.
    pub(crate) headers: &'a [(HeaderName, &'static str)],
    pub(crate) body: Bytes,
}

impl Client {
    pub(crate) fn new(config: HttpConfig, version: HttpProtocol) -> Result<Self, HttpConfigError> {
        let address = config.address()?;
        let tls = Arc::new(Mutex::new(Tls::new(config.tls.clone(), version)));
        Ok(Self {
            tls: address.is_encrypted.then_some(tls),
            address,
            version,
            headers: config.header_map()?,
            authentication: config.authentication,
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
            max_response_bytes: MAX_RESPONSE_BYTES,
            idle: Mutex::default(),
        })
    }

    /// A client of a Unix socket, without TLS; the kernel authenticates the agent.
    pub(crate) fn on_socket(path: &Path, version: HttpProtocol, timeout: Duration) -> Self {
        Self {
            address: Address::of_socket(path),
            version,
            authentication: Authentication::None,
            headers: Vec::new(),
            connect_timeout: timeout,
            request_timeout: timeout,
            max_response_bytes: MAX_RESPONSE_BYTES,
            tls: None,
            idle: Mutex::default(),
        }
    }

    /// Sets the limit of a response.
    pub(crate) fn with_max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Adds a header to all requests.
    pub(crate) fn add_header(
        &mut self,
        name: HeaderName,
        value: &str,
    ) -> Result<(), HttpConfigError> {
        let value = HeaderValue::try_from(value).map_err(|_| HttpConfigError::HeaderValue {
            name: name.to_string(),
        })?;
        self.headers.push((name, value));
        Ok(())
    }

    /// Sends a request. Returns the response, whatever its status, and the redactor of its texts.
    pub(crate) async fn post(
        &self,
        request: &Request<'_>,
    ) -> Result<(Response, Redactor), HttpError> {
        self.exchange(Method::POST, request).await
    }

    /// Requests a path, which begins with `/`. Returns the body of a success.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes, HttpError> {
        let request = Request {
            path,
            headers: &[(ACCEPT, "application/json")],
            body: Bytes::new(),
        };
        let (response, redactor) = self.exchange(Method::GET, &request).await?;
        Ok(response.into_success(&redactor)?.body)
    }

    async fn exchange(
        &self,
        method: Method,
        request: &Request<'_>,
    ) -> Result<(Response, Redactor), HttpError> {
        let credentials = self.credentials().await?;
        let mut old = self.take_idle();
        // The server may have closed an idle connection just before it received the request, so the
        // request is sent again on a new one.
        if let Some(connection) = old.take() {
            match self.send(connection, &method, request, &credentials).await {
                Err(HttpError::ConnectionClosed { .. }) => {}
                other => return other.map(|response| (response, Redactor(credentials.secrets))),
            }
        }
        let connection = self.connect().await?;
        let response = self
            .send(connection, &method, request, &credentials)
            .await?;
        Ok((response, Redactor(credentials.secrets)))
    }

    async fn send(
        &self,
        mut connection: Connection,
        method: &Method,
        request: &Request<'_>,
        credentials: &Credentials,
    ) -> Result<Response, HttpError> {
        let request = self.request(method.clone(), request, credentials);
        let exchange = async {
            let sent = connection.send(request).await;
            let (head, body) = sent
                .map_err(|source| HttpError::ConnectionClosed { source })?
                .into_parts();
            let mut response = Response {
                status: head.status,
                headers: head.headers,
                body: Bytes::new(),
            };
            match read_body(body, &mut response, self.max_response_bytes).await {
                // The body of an error may be too long or incomplete: its status is enough.
                Err(failure) if response.status.is_success() => Err(failure),
                _ => Ok(response),
            }
        };
        let limit = self.request_timeout;
        let response = timeout(limit, exchange).await;
        let response = response.unwrap_or(Err(HttpError::TimedOut { limit }));
        let response = response.map_err(|failure| connection.explain(failure, &self.address))?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_CONNECTIONS {
            idle.push(connection);
        }
        Ok(response)
    }

    fn request(
        &self,
        method: Method,
        request: &Request<'_>,
        credentials: &Credentials,
    ) -> hyper::Request<Full<Bytes>> {
        let mut http_request = hyper::Request::new(Full::new(request.body.clone()));
        *http_request.method_mut() = method;
        *http_request.uri_mut() = self.uri(request.path);
        let headers = http_request.headers_mut();
        if self.version == HttpProtocol::Http1
            && let Ok(host) = HeaderValue::try_from(&self.address.authority)
        {
            headers.insert(HOST, host);
        }
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        for (name, value) in request.headers {
            headers.insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        if let Some(value) = &credentials.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if self.version == HttpProtocol::Http2 {
            *http_request.version_mut() = Version::HTTP_2;
        }
        http_request
    }

    /// With HTTP/1.1 only the path, with HTTP/2 also scheme and authority.
    fn uri(&self, path: &str) -> Uri {
        let path = format!("{}{path}", self.address.prefix);
        let mut parts = hyper::http::uri::Parts::default();
        parts.path_and_query = PathAndQuery::try_from(path).ok();
        if self.version == HttpProtocol::Http2 {
            let is_encrypted = self.address.is_encrypted;
            parts.scheme = Some(if is_encrypted {
                Scheme::HTTPS
            } else {
                Scheme::HTTP
            });
            parts.authority = Authority::try_from(&*self.address.authority).ok();
        }
        Uri::from_parts(parts).unwrap_or_default()
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(Connection::is_usable);
        idle.pop()
    }

    async fn connect(&self) -> Result<Connection, HttpError> {
        let config = match self.tls.clone() {
            None => None,
            Some(tls) => Some(
                read(move || {
                    let mut tls = tls.lock().unwrap_or_else(PoisonError::into_inner);
                    tls.client_config()
                })
                .await?,
            ),
        };
        let limit = self.connect_timeout;
        let opened = timeout(limit, Connection::open(&self.address, config, self.version)).await;
        opened.unwrap_or_else(|_| {
            Err(HttpError::Unreachable {
                address: self.address.name(),
                source: io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("timed out after {} s", limit.as_secs_f64()),
                ),
            })
        })
    }

    /// Current credentials: files are read at each request, so that a new token is used at once.
    async fn credentials(&self) -> Result<Credentials, HttpError> {
        let authentication = self.authentication.clone();
        let mut credentials = read(move || authentication.credentials()).await?;
        let values = self
            .headers
            .iter()
            .filter(|(_, value)| value.is_sensitive());
        let texts = values.filter_map(|(_, value)| value.to_str().ok());
        credentials.secrets.extend(texts.map(str::to_owned));
        Ok(credentials)
    }
}

/// Reads the body and the trailers of a response, up to `limit` bytes.
async fn read_body(
    mut body: Incoming,
    response: &mut Response,
    limit: usize,
) -> Result<(), HttpError> {
    let mut bytes = BytesMut::new();
    let end = loop {
        let frame = match body.frame().await {
            None => break Ok(()),
            Some(Err(source)) => break Err(HttpError::ConnectionClosed { source }),
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(data) => {
                let room = limit - bytes.len();
                bytes.extend_from_slice(&data[..room.min(data.len())]);
                if data.len() > room {
                    break Err(HttpError::ResponseTooLong { limit });
                }
            }
            Err(frame) => response
                .headers
                .extend(frame.into_trailers().unwrap_or_default()),
        }
    };
    response.body = bytes.freeze();
    end
}

/// The header `Content-Type`.
pub(crate) const fn content_type(value: &'static str) -> (HeaderName, &'static str) {
    (CONTENT_TYPE, value)
}
