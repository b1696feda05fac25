//! TLS with certificates made for the test.

use std::fs;

use collector_doubles::{parca::strict_parca, pyroscope::strict_pyroscope, server::Server};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{
    export::TlsConfig,
    http_client::support::certificates::{
        acceptor, acceptor_of_authority, authority, client, trusted,
    },
};

async fn server(acceptor: TlsAcceptor, is_grpc: bool) -> Server {
    let address = "127.0.0.1:0".parse().unwrap();
    let check = if is_grpc {
        strict_parca
    } else {
        strict_pyroscope
    };
    Server::start_at(address, check, Some(acceptor)).await
}

fn config(server: &Server, tls: TlsConfig, is_grpc: bool) -> ExporterConfig {
    config_at(&server.address.to_string(), tls, is_grpc)
}

fn config_at(authority: &str, tls: TlsConfig, is_grpc: bool) -> ExporterConfig {
    let url = format!("https://{authority}");
    let mut config = if is_grpc {
        parca(&url)
    } else {
        pyroscope(&url)
    };
    match &mut config.destination {
        DestinationConfig::Pyroscope(to) => to.http.tls = tls,
        DestinationConfig::Parca(to) => to.http.tls = tls,
        _ => unreachable!(),
    }
    config
}

#[tokio::test]
async fn a_trusted_server_gets_profiles() {
    let temporary = tempfile::tempdir().unwrap();
    let authority = authority();
    for (is_grpc, protocol) in [(false, "http/1.1"), (true, "h2")] {
        let server = server(acceptor(&authority, None, protocol), is_grpc).await;
        let tls = trusted(temporary.path(), &authority);
        let exporters = start(config(&server, tls, is_grpc));
        exporters.push(&numbered(1));
        let status = &exporters.shut_down(Duration::from_secs(60)).await[0];
        let counts = checked(status);
        assert_eq!((counts.delivered, counts.attempts), (1, 1), "{status:?}");
    }
}

#[tokio::test]
async fn an_untrusted_server_gets_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let authority = authority();
    let server = server(acceptor(&authority, None, "http/1.1"), false).await;
    // Neither another authority nor those of the system issued it.
    for tls in [
        trusted(temporary.path(), &self::authority()),
        TlsConfig::default(),
    ] {
        let exporters = start(config(&server, tls, false));
        exporters.push(&numbered(1));
        until(|| counts(&exporters).failures.tls > 0).await;
        let message = last_failure(&exporters);
        assert!(
            message.ends_with("of its authority as `ca_file`"),
            "{message}"
        );
        assert_eq!(counts(&exporters).queued.total(), 1);
    }
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_a_server_is_said() {
    let temporary = tempfile::tempdir().unwrap();
    let authority = authority();
    let plain = Server::start_at("127.0.0.1:0".parse().unwrap(), strict_pyroscope, None).await;
    let secure = server(acceptor(&authority, None, "http/1.1"), false).await;
    let port = secure.address.port();
    let of_authority = server(acceptor_of_authority(&authority, "http/1.1"), false).await;
    for (address, end) in [
        (
            plain.address.to_string(),
            "then its `url` begins with `http://`",
        ),
        (
            format!("localhost:{port}"),
            "must have a name that is in the server's certificate",
        ),
        (
            of_authority.address.to_string(),
            "the server needs one with `basicConstraints=CA:FALSE`",
        ),
    ] {
        let tls = trusted(temporary.path(), &authority);
        let exporters = start(config_at(&address, tls, false));
        exporters.push(&numbered(1));
        until(|| counts(&exporters).failures.tls > 0).await;
        let message = last_failure(&exporters);
        assert!(message.ends_with(end), "{message}");
    }
}

#[tokio::test]
async fn a_client_sends_its_certificate() {
    let temporary = tempfile::tempdir().unwrap();
    let authority = authority();
    for (is_grpc, protocol) in [(false, "http/1.1"), (true, "h2")] {
        let acceptor = acceptor(&authority, Some(&authority), protocol);
        let server = server(acceptor, is_grpc).await;
        let mut tls = trusted(temporary.path(), &authority);
        let exporters = start(config(&server, tls.clone(), is_grpc));
        exporters.push(&numbered(1));
        until(|| counts(&exporters).failures.tls > 0).await;
        let message = last_failure(&exporters);
        assert!(message.starts_with("TLS handshake with"), "{message}");
        assert!(
            message.ends_with("give `cert_file` and `key_file`"),
            "{message}"
        );
        drop(exporters);

        tls.client = Some(client(temporary.path(), &authority));
        let exporters = start(config(&server, tls, is_grpc));
        exporters.push(&numbered(1));
        let status = &exporters.shut_down(Duration::from_secs(60)).await[0];
        assert_eq!(checked(status).delivered, 1, "{status:?}");
    }
}

#[tokio::test]
async fn certificates_are_read_anew() {
    let clock = Clock::stop();
    let temporary = tempfile::tempdir().unwrap();
    let authority = authority();
    let acceptor = acceptor(&authority, Some(&authority), "http/1.1");
    let server = server(acceptor, false).await;
    let mut tls = trusted(temporary.path(), &authority);
    // Of an authority that the server does not trust.
    tls.client = Some(client(temporary.path(), &self::authority()));
    let exporters = start(config(&server, tls, false));
    exporters.push(&numbered(1));
    until(|| counts(&exporters).failures.tls > 0).await;
    let message = last_failure(&exporters);
    assert!(
        message.ends_with("accept the certificate in `cert_file`, or wants one"),
        "{message}"
    );
    client(temporary.path(), &authority);
    clock.pass_until(|| counts(&exporters).delivered == 1).await;
}

#[tokio::test]
async fn files_without_certificates_are_named() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("empty.pem");
    fs::write(&path, "").unwrap();
    let tls = TlsConfig {
        ca_file: Some(path),
        client: None,
    };
    let server = server(acceptor(&authority(), None, "http/1.1"), false).await;
    let exporters = start(config(&server, tls, false));
    exporters.push(&numbered(1));
    until(|| counts(&exporters).failures.credentials > 0).await;
    let message = last_failure(&exporters);
    assert!(message.contains("empty.pem"), "{message}");
}

#[tokio::test]
async fn a_silent_server_is_not_waited_for() {
    let clock = Clock::stop();
    let temporary = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let tls = trusted(temporary.path(), &authority());
    let exporters = start(config_at(&address.to_string(), tls, false));
    exporters.push(&numbered(1));
    let (_stream, _) = silent.accept().await.unwrap();
    clock
        .pass_until(|| counts(&exporters).failures.unreachable == 1)
        .await;
    let message = last_failure(&exporters);
    let expected = format!("cannot connect to {address} (timed out after 10 s)");
    assert_eq!(message, expected);
}
