//! A server with scripted replies.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Frame, Incoming},
    header::{HeaderName, HeaderValue},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// A request.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

/// A reply.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A response after the request was read.
    Full(FullReply),
    /// A response with this status before the body is read; closes the connection.
    Early(u16),
    /// No response.
    Hang,
    /// Closes the connection while the body is read.
    Reset,
    /// Closes the connection while the body of the response is written.
    TruncatedBody,
}

#[derive(Clone, Debug, Default)]
pub struct FullReply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(&'static str, String)>,
    /// Whether the connection is closed before the end of the body.
    pub is_truncated: bool,
}

/// An HTTP response.
pub fn status(status: u16, body: &str) -> Reply {
    Reply::Full(FullReply {
        status,
        body: body.as_bytes().to_vec(),
        ..FullReply::default()
    })
}

/// An HTTP response with a header.
pub fn with_header(status: u16, name: &'static str, value: &str) -> Reply {
    Reply::Full(FullReply {
        status,
        headers: vec![(name, value.to_owned())],
        ..FullReply::default()
    })
}

/// A gRPC response without a message.
pub fn grpc_status(status: u32, message: &str) -> Reply {
    Reply::Full(FullReply {
        status: 200,
        headers: vec![
            ("grpc-status", status.to_string()),
            ("grpc-message", message.to_owned()),
        ],
        ..FullReply::default()
    })
}

/// A gRPC response with a message.
pub fn grpc_message(message: &[u8]) -> Reply {
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    Reply::Full(FullReply {
        status: 200,
        headers: vec![("content-type", "application/grpc".to_owned())],
        body,
        trailers: vec![("grpc-status", "0".to_owned())],
        is_truncated: false,
    })
}

/// Checks a request and makes the reply.
pub type Check = fn(&Received) -> Reply;

/// A server; stopped when it is dropped.
pub struct Server {
    /// Its address, unless it is a Unix socket.
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    check: Check,
    /// Replies to the next requests, which are not checked.
    script: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<Received>>,
    connections: Mutex<Vec<JoinHandle<()>>>,
    /// Time until a request is responded to.
    delay: Mutex<Duration>,
}

impl Server {
    pub async fn start(check: Check) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), check, None).await
    }

    pub async fn start_at(address: SocketAddr, check: Check, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let state = State::new(check);
        Self {
            address: listener.local_addr().unwrap(),
            task: tokio::spawn(accept(listener, Arc::clone(&state), tls)),
            state,
        }
    }

    /// Starts a server of HTTP/2 on a Unix socket.
    pub fn start_at_path(path: &Path, check: Check) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let state = State::new(check);
        let served = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let task = tokio::spawn(serve_http(stream, Arc::clone(&served), true));
                served.connections.lock().unwrap().push(task);
            }
        });
        Self {
            address: "0.0.0.0:0".parse().unwrap(),
            state,
            task,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a reply to the next request that has none, whatever it is.
    pub fn enqueue_reply(&self, reply: Reply) {
        self.state.script.lock().unwrap().push_back(reply);
    }

    /// Has each request wait for so long, as one to a distant server.
    pub fn set_delay(&self, delay: Duration) {
        *self.state.delay.lock().unwrap() = delay;
    }

    /// The requests with a successful response, in order.
    pub fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// Number of connections accepted.
    pub fn connections(&self) -> usize {
        self.state.connections.lock().unwrap().len()
    }

    /// Closes all connections.
    pub fn disconnect(&self) {
        for connection in &*self.state.connections.lock().unwrap() {
            connection.abort();
        }
    }
}

impl State {
    fn new(check: Check) -> Arc<Self> {
        Arc::new(Self {
            check,
            script: Mutex::default(),
            received: Mutex::default(),
            connections: Mutex::default(),
            delay: Mutex::default(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        self.disconnect();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, tls: Option<TlsAcceptor>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (served, tls) = (Arc::clone(&state), tls.clone());
        let task = tokio::spawn(async move { serve(stream, served, tls).await });
        state.connections.lock().unwrap().push(task);
    }
}

async fn serve(stream: TcpStream, state: Arc<State>, tls: Option<TlsAcceptor>) {
    let Some(tls) = tls else {
        let mut first = [0; 3];
        let _ = stream.peek(&mut first).await;
        return serve_http(stream, state, first == *b"PRI").await;
    };
    if let Ok(stream) = tls.accept(stream).await {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        serve_http(stream, state, is_http2).await;
    }
}

async fn serve_http<S>(stream: S, state: Arc<State>, is_http2: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| respond(request, Arc::clone(&state)));
    let _ = if is_http2 {
        http2::Builder::new(TokioExecutor::new())
            .serve_connection(stream, service)
            .await
    } else {
        http1::Builder::new()
            .serve_connection(stream, service)
            .await
    };
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<ReplyBody>, io::Error> {
    let scripted = state.script.lock().unwrap().pop_front();
    match scripted {
        Some(Reply::Hang) => return std::future::pending().await,
        Some(Reply::Reset) => return Err(io::ErrorKind::ConnectionReset.into()),
        Some(Reply::Early(status)) => {
            let mut response = response(FullReply {
                status,
                ..FullReply::default()
            });
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert("connection", close);
            return Ok(response);
        }
        _ => {}
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let received = Received {
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    let delay = *state.delay.lock().unwrap();
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let reply = scripted.unwrap_or_else(|| (state.check)(&received));
    match reply {
        Reply::Full(reply) => {
            let is_grpc_failure = reply.headers.iter().any(|(name, _)| *name == "grpc-status");
            if reply.status == 200 && !is_grpc_failure {
                state.received.lock().unwrap().push(received);
            }
            Ok(response(reply))
        }
        _ => Ok(response(FullReply {
            status: 200,
            body: vec![b'x'; 100],
            is_truncated: true,
            ..FullReply::default()
        })),
    }
}

fn response(reply: FullReply) -> Response<ReplyBody> {
    let map = |pairs: &[(&'static str, String)]| {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::try_from(value).unwrap(),
            )
        });
        pairs.collect::<HeaderMap>()
    };
    let mut frames = VecDeque::new();
    if !reply.body.is_empty() {
        frames.push_back(Frame::data(Bytes::from(reply.body)));
    }
    if !reply.trailers.is_empty() {
        frames.push_back(Frame::trailers(map(&reply.trailers)));
    }
    let is_truncated = reply.is_truncated;
    let mut response = Response::new(ReplyBody {
        frames,
        is_truncated,
        is_flushed: false,
    });
    *response.status_mut() = reply.status.try_into().unwrap();
    *response.headers_mut() = map(&reply.headers);
    response
}

struct ReplyBody {
    frames: VecDeque<Frame<Bytes>>,
    is_truncated: bool,
    /// Whether everything before the truncation is flushed.
    is_flushed: bool,
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = self.frames.pop_front();
        if frame.is_none() && self.is_truncated && !self.is_flushed {
            // hyper flushes a connection when the body is pending.
            self.is_flushed = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(match frame {
            None if self.is_truncated => Some(Err(io::ErrorKind::ConnectionReset.into())),
            frame => frame.map(Ok),
        })
    }
}
