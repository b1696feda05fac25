//! Credentials that change and are never shown.

use std::fs;

use collector_doubles::{
    pyroscope::strict_pyroscope,
    server::{Received, Reply, Server, status},
};

use super::*;
use crate::export::{Authentication, Secret, SecretSource};

/// Accepts the new token, and repeats other credentials.
fn accept_new_token(received: &Received) -> Reply {
    match received.header("authorization") {
        "Bearer new-token" => strict_pyroscope(received),
        other => {
            let extra = received.header("x-key");
            status(401, &format!("unknown credentials {other} and {extra}"))
        }
    }
}

fn authenticated(url: &str, authentication: Authentication) -> ExporterConfig {
    let mut config = pyroscope(url);
    let DestinationConfig::Pyroscope(to) = &mut config.destination else {
        unreachable!()
    };
    to.http.authentication = authentication;
    to.http.headers = vec![("X-Key".to_owned(), Secret::new("extra-secret"))];
    config
}

#[tokio::test]
async fn a_new_token_is_used_at_once() {
    let clock = Clock::stop();
    let temporary = tempfile::tempdir().unwrap();
    let token = temporary.path().join("token");
    let server = Server::start(accept_new_token).await;
    let source = SecretSource::File(token.clone());
    let config = authenticated(&server.url(), Authentication::Bearer(source));
    let exporters = start(config);
    exporters.push(&numbered(1));
    until(|| counts(&exporters).failures.credentials == 1).await;
    let message = last_failure(&exporters);
    assert!(message.contains("token'"), "{message}");

    fs::write(&token, "old-token\n").unwrap();
    clock
        .pass_until(|| counts(&exporters).failures.unauthorized > 0)
        .await;
    let message = last_failure(&exporters);
    assert_eq!(
        message,
        "the server responded with HTTP status 401: unknown credentials Bearer … and …"
    );

    fs::write(&token, "new-token\n").unwrap();
    clock.pass_until(|| counts(&exporters).delivered == 1).await;
}

#[tokio::test]
async fn no_secret_is_shown() {
    let password = SecretSource::Value(Secret::new("hunter2"));
    let server = Server::start(accept_new_token).await;
    let basic = Authentication::Basic {
        user: "me".to_owned(),
        password,
    };
    let config = authenticated(&server.url(), basic);
    let shown = format!("{config:?} {config:#?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("extra-secret"),
        "{shown}"
    );
    let exporters = start(config);
    exporters.push(&numbered(1));
    until(|| counts(&exporters).failures.unauthorized > 0).await;
    let message = last_failure(&exporters);
    assert_eq!(
        message,
        "the server responded with HTTP status 401: unknown credentials Basic … and …"
    );
}

#[tokio::test]
async fn a_secret_that_cannot_be_sent_is_not_shown_either() {
    let secret = SecretSource::Value(Secret::new("hunter2\nX-Injected: 1"));
    let server = Server::start(accept_new_token).await;
    let exporters = start(authenticated(&server.url(), Authentication::Bearer(secret)));
    exporters.push(&numbered(1));
    until(|| counts(&exporters).failures.credentials > 0).await;
    let message = last_failure(&exporters);
    assert!(!message.contains("hunter2"), "{message}");
    assert_eq!(server.connections(), 0);
}
