use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
};

use super::{
    Error, Listener, MAX_TCP_CONNECTIONS, NoSuchTarget, QuarantineList, Request,
    connections::REQUEST_TIMEOUT,
};
use crate::{
    config::{HttpServer, SocketPath},
    profile::CPU,
    workers::Quarantined,
};

const PROFILE: &str = "/debug/pprof/profile";

const TOKEN: &str = "correct horse battery staple";

/// Sends a request and returns the status and the body of the response.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    headers: &str,
) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

/// A server with a mock agent that handles its requests.
struct Server {
    address: SocketAddr,
    folder: TempDir,
}

impl Server {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut HttpServer)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = HttpServer {
            address: Some(([127, 0, 0, 1], 0).into()),
            socket: Some(SocketPath {
                path: folder.path().join("agent.sock"),
                is_default: false,
            }),
            ..HttpServer::default()
        };
        change(&mut config);
        let mut listener = Listener::start(&config, vec![&CPU]).await.unwrap();
        let address = listener.address().unwrap();
        tokio::spawn(async move {
            loop {
                respond(listener.next().await);
            }
        });
        Self { address, folder }
    }

    /// One that serves profiles over TCP too.
    async fn with_token() -> (Self, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), TOKEN).unwrap();
        let path = file.path().to_owned();
        let server = Self::start_with(|config| config.token_file = Some(path)).await;
        (server, file)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// Requests a path at the Unix socket.
    async fn get(&self, path: &str) -> (u16, String) {
        let stream = UnixStream::connect(self.socket()).await.unwrap();
        exchange(stream, path, "Host: localhost\r\n").await
    }

    /// Requests a path over TCP.
    async fn get_with(&self, path: &str, headers: &str) -> (u16, String) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        exchange(stream, path, headers).await
    }

    async fn get_over_tcp(&self, path: &str) -> (u16, String) {
        self.get_with(path, "Host: localhost\r\n").await
    }

    async fn get_with_token(&self, path: &str, authorization: &str) -> (u16, String) {
        let headers = format!("Host: localhost\r\nAuthorization: {authorization}\r\n");
        self.get_with(path, &headers).await
    }
}

fn respond(request: Request) {
    match request {
        Request::Metrics(reply) => drop(reply.send("agent_a 1\n".to_owned())),
        Request::Quarantine(reply) => {
            let quarantined = |number| Quarantined {
                name: format!("process {number}"),
                reason: "it takes too long to read",
                since: Instant::now(),
            };
            drop(reply.send((100..250).map(quarantined).collect()));
        }
        Request::Health(reply) => drop(reply.send(())),
        Request::Profile(request) if request.pid == Some(13) => drop(request.reply),
        Request::Profile(request) if request.pid == Some(14) => {
            let why = NoSuchTarget("there is no process 14".to_owned());
            drop(request.reply.send(Err(why)));
        }
        Request::Profile(request) => {
            let text = format!(
                "{} {:?} {:?} {:?} {:?}",
                request.kind.name,
                request.function_names,
                request.duration,
                request.pid,
                request.labels
            );
            drop(request.reply.send(Ok(text.into_bytes())));
        }
    }
}

#[tokio::test]
async fn every_endpoint_responds() {
    let server = Server::start().await;
    assert_eq!(server.get("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(server.get("/readyz").await, (200, "ok\n".to_owned()));
    let (status, body) = server.get("/metrics").await;
    assert_eq!((status, &*body), (200, "agent_a 1\n"));
    let path = "/debug/pprof/profile?seconds=0.5&pid=7&service_name=a%20b";
    let (status, body) = server.get(path).await;
    assert_eq!(
        (status, &*body),
        (200, r#"cpu Plain 500ms Some(7) [("service_name", "a b")]"#)
    );
    let (_, body) = server.get(PROFILE).await;
    assert_eq!(body, "cpu Plain 30s None []");
    let (_, body) = server
        .get("/debug/pprof/profile?function_names=module")
        .await;
    assert_eq!(body, "cpu Module 30s None []");
    let (_, body) = server.get("/debug/pprof/profile?event=cpu").await;
    assert_eq!(body, "cpu Plain 30s None []");
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let server = Server::start().await;
    for query in [
        "seconds=0",
        "function_names=qualified",
        "seconds=x",
        "seconds=301",
        "seconds=NaN",
        "seconds=1&pid=x",
        "event=wall",
    ] {
        let (status, _) = server.get(&format!("{PROFILE}?{query}")).await;
        assert_eq!(status, 400, "{query}");
    }
    assert_eq!(server.get("/debug/pprof/profile?pid=13").await.0, 429);
    assert_eq!(server.get("/elsewhere").await.0, 404);
    let (status, body) = server.get("/debug/pprof/profile?pid=14").await;
    assert_eq!((status, &*body), (404, "there is no process 14\n"));
}

#[tokio::test]
async fn over_tcp_there_are_metrics_and_health_only() {
    let server = Server::start().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.get_over_tcp(path).await.0, 200, "{path}");
    }
    for path in [PROFILE, "/quarantine"] {
        let (status, body) = server.get_over_tcp(path).await;
        assert_eq!(status, 403, "{path}");
        assert!(body.contains("Unix socket"), "{body}");
        let with_token = server.get_with_token(path, "Bearer x").await;
        assert_eq!(with_token.0, 403, "{path}");
    }
    assert_eq!(server.get_over_tcp("/elsewhere").await.0, 404);
}

#[tokio::test]
async fn a_token_gives_profiles_over_tcp() {
    let (server, file) = Server::with_token().await;
    let bearer = |token: &str| format!("Bearer {token}");
    let basic = format!("Basic {}", STANDARD.encode(format!("any:{TOKEN}")));
    for path in [PROFILE, "/quarantine"] {
        assert_eq!(server.get_with_token(path, &bearer(TOKEN)).await.0, 200);
        assert_eq!(server.get_with_token(path, &basic).await.0, 200);
        assert_eq!(server.get(path).await.0, 200);
        assert_eq!(server.get_over_tcp(path).await.0, 401);
        for wrong in ["", &TOKEN[1..], &format!("{TOKEN}."), &TOKEN.to_uppercase()] {
            let (status, body) = server.get_with_token(path, &bearer(wrong)).await;
            assert_eq!(status, 401, "{wrong}");
            assert!(!body.contains(TOKEN), "{body}");
        }
    }
    assert_eq!(server.get_over_tcp("/metrics").await.0, 200);
    // Another token is in force at once.
    let other = "another one that is long enough";
    fs::write(file.path(), other).unwrap();
    let is_accepted = async |token| server.get_with_token(PROFILE, &bearer(token)).await.0;
    assert_eq!(
        (is_accepted(TOKEN).await, is_accepted(other).await),
        (401, 200)
    );
    fs::write(file.path(), "").unwrap();
    assert_eq!(
        (is_accepted("").await, is_accepted(other).await),
        (401, 503)
    );
}

#[tokio::test]
async fn an_unusable_token_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let config = HttpServer {
        address: Some(([127, 0, 0, 1], 0).into()),
        token_file: Some(file.clone()),
        ..HttpServer::default()
    };
    let start = async || Listener::start(&config, vec![&CPU]).await.unwrap_err();
    assert!(matches!(start().await, Error::Token(_)));
    fs::write(&file, "short").unwrap();
    let error = start().await;
    assert!(matches!(error, Error::ShortToken { .. }));
    assert!(!error.to_string().contains("short"), "{error}");
}

#[tokio::test]
async fn only_requests_that_name_this_server_are_answered() {
    let name = vec!["agent.example".to_owned()];
    let server = Server::start_with(|config| config.hosts = name).await;
    let status = async |host| {
        let headers = format!("Host: {host}\r\n");
        server.get_with("/metrics", &headers).await.0
    };
    for host in ["localhost:1", "127.0.0.1", "[::1]:7147", "agent.example"] {
        assert_eq!(status(host).await, 200, "{host}");
    }
    assert_eq!(status("attacker.example").await, 421);
    let (missing, _) = server.get_with("/elsewhere", "").await;
    assert_eq!(missing, 421);
}

#[tokio::test]
async fn clients_without_a_request_do_not_keep_others_out() {
    let server = Server::start().await;
    let mut silent = Vec::new();
    for _ in 0..2 * MAX_TCP_CONNECTIONS {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(server.get_over_tcp("/healthz").await.0, 200);
    // The oldest ones had to go.
    let mut byte = [0];
    assert_eq!(silent[0].read(&mut byte).await.unwrap_or(0), 0);
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn connections_are_limited() {
    let config = HttpServer {
        address: Some(([127, 0, 0, 1], 0).into()),
        ..HttpServer::default()
    };
    // Its main loop does not respond.
    let listener = Listener::start(&config, vec![&CPU]).await.unwrap();
    let address = listener.address().unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut waiting = Vec::new();
    for _ in 0..MAX_TCP_CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        waiting.push(stream);
    }
    // Those with a request stay, and the next one is told so.
    let mut one_more = TcpStream::connect(address).await.unwrap();
    one_more.write_all(request).await.unwrap();
    let mut response = String::new();
    one_more.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    assert!(response.contains("\r\nretry-after: 1\r\n"), "{response}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_arrive_ends_the_connection() {
    let server = Server::start().await;
    for part in ["", "GET /metrics HTTP/1.1\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(part.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        let ends = tokio::time::timeout(2 * REQUEST_TIMEOUT, read).await;
        assert!(ends.is_ok(), "{part}");
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn a_request_is_bounded() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let header = format!("X: {}\r\n", "x".repeat(1 << 10));
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        header.repeat(64)
    );
    // The server may close the connection before it has read all.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_respond_is_unhealthy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let config = HttpServer {
        socket: Some(SocketPath {
            path: path.clone(),
            is_default: false,
        }),
        ..HttpServer::default()
    };
    let _listener = Listener::start(&config, vec![&CPU]).await.unwrap();
    let stream = UnixStream::connect(&path).await.unwrap();
    let request = exchange(stream, "/healthz", "Host: localhost\r\n");
    let (status, _) = tokio::time::timeout(Duration::from_secs(60), request)
        .await
        .unwrap();
    assert_eq!(status, 503);
}

#[tokio::test]
async fn an_address_in_use_is_an_error() {
    let server = Server::start().await;
    let start = async |address, socket: Option<bool>| {
        let config = HttpServer {
            address,
            socket: socket.map(|is_default| SocketPath {
                path: server.socket(),
                is_default,
            }),
            ..HttpServer::default()
        };
        Listener::start(&config, vec![&CPU]).await
    };
    let error = start(Some(server.address), None).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("choose another address"), "{message}");
    let error = start(None, Some(false)).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("another agent listens there"), "{message}");
    // The default socket is left to the agent that has it.
    start(None, Some(true)).await.unwrap();
    assert_eq!(server.get("/healthz").await.0, 200);
    let mut none = start(None, None).await.unwrap();
    let request = tokio::time::timeout(Duration::from_millis(1), none.next());
    assert!(request.await.is_err());
}

#[tokio::test]
async fn the_list_of_what_is_left_out_is_bounded() {
    let (status, body) = Server::start().await.get("/quarantine").await;
    assert_eq!(status, 200);
    let list: QuarantineList = serde_json::from_str(&body).unwrap();
    assert_eq!((list.count, list.subjects.len()), (150, 100));
    // The last that entered is the first.
    assert_eq!(list.subjects[0].name, "process 249");
    assert_eq!(list.subjects[0].reason, "it takes too long to read");
}
