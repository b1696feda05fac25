//! A client of one address, which sends one request after the other.

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

/// Longest answer that is read unless more is expected, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Who asks.
const AGENT: &str = concat!("agent/", env!("CARGO_PKG_VERSION"));

/// Somebody who is asked, or sent something.
pub(crate) struct Client {
    address: Address,
    version: HttpProtocol,
    authentication: Authentication,
    headers: Vec<(HeaderName, HeaderValue)>,
    connect_timeout: Duration,
    request_timeout: Duration,
    max_answer_bytes: usize,
    tls: Option<Arc<Mutex<Tls>>>,
    /// The connection, while no request is under way.
    idle: Mutex<Option<Connection>>,
}

/// What is asked for.
pub(crate) struct Request<'a> {
    /// Below the address; begins with `/`.
    pub(crate) path: &'a str,
    /// Headers of the protocol, the type of the body first.
    pub(crate) headers: &'a [(HeaderName, &'static str)],
    /// The body.
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
            max_answer_bytes: MAX_ANSWER_BYTES,
            idle: Mutex::new(None),
        })
    }

    /// Whoever listens at a socket of this machine, without TLS; who we are the kernel tells.
    pub(crate) fn on_socket(path: &Path, version: HttpProtocol, timeout: Duration) -> Self {
        Self {
            address: Address::of_socket(path),
            version,
            authentication: Authentication::None,
            headers: Vec::new(),
            connect_timeout: timeout,
            request_timeout: timeout,
            max_answer_bytes: MAX_ANSWER_BYTES,
            tls: None,
            idle: Mutex::new(None),
        }
    }

    /// Reads answers up to so many bytes.
    pub(crate) fn with_max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_answer_bytes = bytes;
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

    /// Sends a request, and gives the answer, whatever its status, and a filter for its words.
    pub(crate) async fn post(&self, post: &Request<'_>) -> Result<(Response, Redactor), HttpError> {
        self.exchange(Method::POST, post).await
    }

    /// Asks for what is at a path, which begins with `/`; gives the body if that is a success.
    pub(crate) async fn get(&self, path: &str) -> Result<Bytes, HttpError> {
        let request = Request {
            path,
            headers: &[(ACCEPT, "application/json")],
            body: Bytes::new(),
        };
        let (answer, words) = self.exchange(Method::GET, &request).await?;
        Ok(answer.into_success(&words)?.body)
    }

    async fn exchange(
        &self,
        method: Method,
        post: &Request<'_>,
    ) -> Result<(Response, Redactor), HttpError> {
        let credentials = self.credentials().await?;
        let mut old = self.take_idle();
        // The other side may have closed a connection while the request was on its way to it; that
        // says nothing about the destination.
        if let Some(connection) = old.take() {
            match self.send(connection, &method, post, &credentials).await {
                Err(HttpError::ConnectionClosed { .. }) => {}
                other => return other.map(|answer| (answer, Redactor(credentials.hidden))),
            }
        }
        let connection = self.connect().await?;
        let answer = self.send(connection, &method, post, &credentials).await?;
        Ok((answer, Redactor(credentials.hidden)))
    }

    async fn send(
        &self,
        mut connection: Connection,
        method: &Method,
        post: &Request<'_>,
        credentials: &Credentials,
    ) -> Result<Response, HttpError> {
        let request = self.request(method.clone(), post, credentials);
        let exchange = async {
            let sent = connection.send(request).await;
            let (head, body) = sent
                .map_err(|source| HttpError::ConnectionClosed { source })?
                .into_parts();
            let mut answer = Response {
                status: head.status,
                headers: head.headers,
                body: Bytes::new(),
            };
            match read_body(body, &mut answer, self.max_answer_bytes).await {
                // The words beside a refusal may be long or cut: the status is what counts.
                Err(failure) if answer.status.is_success() => Err(failure),
                _ => Ok(answer),
            }
        };
        let limit = self.request_timeout;
        let answer = timeout(limit, exchange).await;
        let answer = answer.unwrap_or(Err(HttpError::TimedOut { limit }));
        let answer = answer.map_err(|failure| connection.explain(failure, &self.address))?;
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        Ok(answer)
    }

    fn request(
        &self,
        method: Method,
        post: &Request<'_>,
        credentials: &Credentials,
    ) -> hyper::Request<Full<Bytes>> {
        let mut request = hyper::Request::new(Full::new(post.body.clone()));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri(post.path);
        let headers = request.headers_mut();
        if self.version == HttpProtocol::Http1
            && let Ok(host) = HeaderValue::try_from(&self.address.authority)
        {
            headers.insert(HOST, host);
        }
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        for (name, value) in post.headers {
            headers.insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        if let Some(value) = &credentials.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if self.version == HttpProtocol::Http2 {
            *request.version_mut() = Version::HTTP_2;
        }
        request
    }

    /// Only a path with HTTP/1, all of it with HTTP/2.
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
        idle.take().filter(Connection::is_usable)
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
                    format!("not within {} s", limit.as_secs_f64()),
                ),
            })
        })
    }

    /// Who we are now: files are read at each request, so that a new token counts at once.
    async fn credentials(&self) -> Result<Credentials, HttpError> {
        let authentication = self.authentication.clone();
        let mut credentials = read(move || authentication.credentials()).await?;
        let values = self
            .headers
            .iter()
            .filter(|(_, value)| value.is_sensitive());
        let texts = values.filter_map(|(_, value)| value.to_str().ok());
        credentials.hidden.extend(texts.map(str::to_owned));
        Ok(credentials)
    }
}

/// Reads the body of an answer and what stands after it, as much as makes sense.
async fn read_body(
    mut body: Incoming,
    answer: &mut Response,
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
                    break Err(HttpError::LongAnswer { limit });
                }
            }
            Err(frame) => answer
                .headers
                .extend(frame.into_trailers().unwrap_or_default()),
        }
    };
    answer.body = bytes.freeze();
    end
}

/// The type of a body.
pub(crate) const fn content_type(value: &'static str) -> (HeaderName, &'static str) {
    (CONTENT_TYPE, value)
}
