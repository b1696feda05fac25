//! A server that does what it is told to.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
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

/// What came.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    /// What stands behind the `?`.
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

/// What is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    /// An answer, when all was read.
    Full(FullReply),
    /// An answer before the body is read, and then an end.
    Early(u16),
    /// Silence.
    Hang,
    /// The end of the connection while the body is read.
    Reset,
    /// The end of the connection while the body of the answer is written.
    TruncatedBody,
}

#[derive(Clone, Debug, Default)]
pub struct FullReply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(&'static str, String)>,
    /// Whether the connection ends instead of the body.
    pub is_truncated: bool,
}

/// An answer of HTTP.
pub fn status(status: u16, body: &str) -> Reply {
    Reply::Full(FullReply {
        status,
        body: body.as_bytes().to_vec(),
        ..FullReply::default()
    })
}

/// An answer with a header.
pub fn with_header(status: u16, name: &'static str, value: &str) -> Reply {
    Reply::Full(FullReply {
        status,
        headers: vec![(name, value.to_owned())],
        ..FullReply::default()
    })
}

/// An answer of gRPC without a message.
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

/// An answer of gRPC with a message.
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

/// What a strict receiver says of a request.
pub type Check = fn(&Received) -> Reply;

/// A server; gone when it is dropped.
pub struct Server {
    /// Where it is, unless it is at a path.
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    check: Check,
    /// What is answered before it is checked anything.
    script: Mutex<VecDeque<Reply>>,
    received: Mutex<Vec<Received>>,
    connections: Mutex<Vec<JoinHandle<()>>>,
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

    /// One that speaks HTTP/2 at a path.
    pub fn start_at_path(path: &Path, check: Check) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let state = State::new(check);
        let served = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let task = tokio::spawn(speak(stream, Arc::clone(&served), true));
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

    /// What is answered next, whatever comes.
    pub fn enqueue_reply(&self, reply: Reply) {
        self.state.script.lock().unwrap().push_back(reply);
    }

    /// All that came whole, in its order.
    pub fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.state.connections.lock().unwrap().len()
    }

    /// Ends all connections.
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
        return speak(stream, state, first == *b"PRI").await;
    };
    if let Ok(stream) = tls.accept(stream).await {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        speak(stream, state, is_http2).await;
    }
}

async fn speak<S>(stream: S, state: Arc<State>, is_http2: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| answer(request, Arc::clone(&state)));
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

async fn answer(
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
    let reply = scripted.unwrap_or_else(|| (state.check)(&received));
    match reply {
        Reply::Full(answer) => {
            let is_grpc_failure = answer
                .headers
                .iter()
                .any(|(name, _)| *name == "grpc-status");
            if answer.status == 200 && !is_grpc_failure {
                state.received.lock().unwrap().push(received);
            }
            Ok(response(answer))
        }
        _ => Ok(response(FullReply {
            status: 200,
            body: vec![b'x'; 100],
            is_truncated: true,
            ..FullReply::default()
        })),
    }
}

fn response(answer: FullReply) -> Response<ReplyBody> {
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
    if !answer.body.is_empty() {
        frames.push_back(Frame::data(Bytes::from(answer.body)));
    }
    if !answer.trailers.is_empty() {
        frames.push_back(Frame::trailers(map(&answer.trailers)));
    }
    let is_truncated = answer.is_truncated;
    let mut response = Response::new(ReplyBody {
        frames,
        is_truncated,
        is_sent: false,
    });
    *response.status_mut() = answer.status.try_into().unwrap();
    *response.headers_mut() = map(&answer.headers);
    response
}

struct ReplyBody {
    frames: VecDeque<Frame<Bytes>>,
    is_truncated: bool,
    /// Whether all that comes before the cut is on its way.
    is_sent: bool,
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = self.frames.pop_front();
        if frame.is_none() && self.is_truncated && !self.is_sent {
            // A connection is flushed when there is nothing to do.
            self.is_sent = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(match frame {
            None if self.is_truncated => Some(Err(io::ErrorKind::ConnectionReset.into())),
            frame => frame.map(Ok),
        })
    }
}
