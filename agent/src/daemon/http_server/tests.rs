use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Listener, QuarantineList, Request};
use crate::{profile::CPU, workers::Quarantined};

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

/// A listener with a mock agent that handles its requests.
async fn listener() -> SocketAddr {
    let mut listener = Listener::start(Some(([127, 0, 0, 1], 0).into()), vec![&CPU])
        .await
        .unwrap();
    let address = listener.address().unwrap();
    tokio::spawn(async move {
        loop {
            match listener.next().await {
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
                Request::Profile(request) => {
                    let text = format!(
                        "{} {:?} {:?} {:?} {:?}",
                        request.kind.name,
                        request.function_names,
                        request.duration,
                        request.pid,
                        request.labels
                    );
                    drop(request.reply.send(text.into_bytes()));
                }
            }
        }
    });
    address
}

#[tokio::test]
async fn every_endpoint_responds() {
    let address = listener().await;
    assert_eq!(get(address, "/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(get(address, "/readyz").await, (200, "ok\n".to_owned()));
    let (status, body) = get(address, "/metrics").await;
    assert_eq!((status, &*body), (200, "agent_a 1\n"));
    let path = "/debug/pprof/profile?seconds=0.5&pid=7&service_name=a%20b";
    let (status, body) = get(address, path).await;
    assert_eq!(
        (status, &*body),
        (200, r#"cpu Plain 500ms Some(7) [("service_name", "a b")]"#)
    );
    let (_, body) = get(address, "/debug/pprof/profile").await;
    assert_eq!(body, "cpu Plain 30s None []");
    let (_, body) = get(address, "/debug/pprof/profile?function_names=module").await;
    assert_eq!(body, "cpu Module 30s None []");
    let (_, body) = get(address, "/debug/pprof/profile?event=cpu").await;
    assert_eq!(body, "cpu Plain 30s None []");
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let address = listener().await;
    for query in [
        "seconds=0",
        "function_names=qualified",
        "seconds=x",
        "seconds=301",
        "seconds=NaN",
        "seconds=1&pid=x",
        "event=wall",
    ] {
        let (status, _) = get(address, &format!("/debug/pprof/profile?{query}")).await;
        assert_eq!(status, 400, "{query}");
    }
    assert_eq!(get(address, "/debug/pprof/profile?pid=13").await.0, 429);
    assert_eq!(get(address, "/elsewhere").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_respond_is_unhealthy() {
    let listener = Listener::start(Some(([127, 0, 0, 1], 0).into()), vec![&CPU])
        .await
        .unwrap();
    let request = get(listener.address().unwrap(), "/healthz");
    let (status, _) = tokio::time::timeout(Duration::from_secs(60), request)
        .await
        .unwrap();
    assert_eq!(status, 503);
}

#[tokio::test]
async fn an_address_in_use_is_an_error() {
    let first = Listener::start(Some(([127, 0, 0, 1], 0).into()), vec![&CPU])
        .await
        .unwrap();
    let error = Listener::start(first.address(), vec![&CPU])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("choose another address"),
        "{error}"
    );
    let mut none = Listener::start(None, vec![&CPU]).await.unwrap();
    let request = tokio::time::timeout(Duration::from_millis(1), none.next());
    assert!(request.await.is_err());
}

#[tokio::test]
async fn the_list_of_what_is_left_out_is_bounded() {
    let (status, body) = get(listener().await, "/quarantine").await;
    assert_eq!(status, 200);
    let list: QuarantineList = serde_json::from_str(&body).unwrap();
    assert_eq!((list.count, list.subjects.len()), (150, 100));
    // The last that entered is the first.
    assert_eq!(list.subjects[0].name, "process 249");
    assert_eq!(list.subjects[0].reason, "it takes too long to read");
}
