//! Collectors that respond with errors.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use collector_doubles::{
    parca::strict_parca,
    pyroscope::{services, strict_pyroscope},
    server::{FullReply, Received, Reply, Server, grpc_status, status, with_header},
};

use super::*;
use crate::export::counts::Failures;

const MINUTE: Duration = Duration::from_secs(60);

/// Counters and last error after `reply` to the first of two batches.
async fn first_reply(reply: Reply, is_grpc: bool) -> (Counts, String) {
    let clock = Clock::stop();
    let (server, config) = if is_grpc {
        let server = Server::start(strict_parca).await;
        let config = parca(&server.url());
        (server, config)
    } else {
        let server = Server::start(strict_pyroscope).await;
        let config = pyroscope(&server.url());
        (server, config)
    };
    server.enqueue_reply(reply);
    let exporters = start(config);
    exporters.push(&numbered(1));
    exporters.push(&numbered(2));
    clock
        .pass_until(|| counts(&exporters).queued.total() == 0)
        .await;
    let status = &exporters.status()[0];
    let message = status.last_failure.clone().unwrap();
    (checked(status), message)
}

async fn is_retried(reply: Reply, is_grpc: bool, failure: fn(&mut Failures) -> &mut u64) -> String {
    let (counts, message) = first_reply(reply, is_grpc).await;
    let mut expected = Failures::default();
    *failure(&mut expected) = 1;
    assert_eq!(counts.failures, expected, "{message}");
    assert_eq!((counts.delivered, counts.attempts), (2, 3), "{message}");
    message
}

#[tokio::test]
async fn transient_failures_are_retried() {
    for code in [408, 425, 502, 503, 504] {
        is_retried(status(code, ""), false, |failures| {
            &mut failures.unavailable
        })
        .await;
    }
    for code in [500, 507, 599] {
        is_retried(status(code, ""), false, |failures| {
            &mut failures.server_error
        })
        .await;
    }
    for code in [401, 403] {
        is_retried(status(code, ""), false, |failures| {
            &mut failures.unauthorized
        })
        .await;
    }
    is_retried(Reply::Reset, false, |failures| {
        &mut failures.connection_closed
    })
    .await;
    is_retried(Reply::TruncatedBody, false, |failures| {
        &mut failures.connection_closed
    })
    .await;
    is_retried(Reply::Hang, false, |failures| &mut failures.timed_out).await;
}

#[tokio::test]
async fn transient_failures_are_retried_over_grpc() {
    for code in [1, 4, 14] {
        is_retried(grpc_status(code, ""), true, |failures| {
            &mut failures.unavailable
        })
        .await;
    }
    let message = is_retried(grpc_status(13, "a%20b%0A"), true, |failures| {
        &mut failures.server_error
    })
    .await;
    assert_eq!(message, "the server responded with gRPC status 13: a b");
    is_retried(grpc_status(16, ""), true, |failures| {
        &mut failures.unauthorized
    })
    .await;
    // A proxy that does not speak gRPC.
    is_retried(status(503, ""), true, |failures| &mut failures.unavailable).await;
    is_retried(Reply::Reset, true, |failures| {
        &mut failures.connection_closed
    })
    .await;
    is_retried(Reply::TruncatedBody, true, |failures| {
        &mut failures.connection_closed
    })
    .await;
    is_retried(Reply::Hang, true, |failures| &mut failures.timed_out).await;
    // `google.rpc.ExporterStatus` with a `RetryInfo` of 30 s.
    let info = b"\x0a\x02\x08\x1e";
    let mut any = b"\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x04".to_vec();
    any.extend(info);
    let mut details = vec![0x1a, u8::try_from(any.len()).unwrap()];
    details.extend(any);
    let details = STANDARD_NO_PAD.encode(details);
    let reply = Reply::Full(FullReply {
        status: 200,
        headers: vec![
            ("grpc-status", "8".to_owned()),
            ("grpc-status-details-bin", details),
        ],
        ..FullReply::default()
    });
    is_retried(reply, true, |failures| &mut failures.throttled).await;
}

#[tokio::test]
async fn permanent_failures_are_dropped_at_once() {
    for (reply, is_grpc, too_large, unsupported, rejected) in [
        (status(400, "bad"), false, 0, 0, 1),
        (status(422, ""), false, 0, 0, 1),
        (
            with_header(307, "location", "http://127.0.0.1:1/"),
            false,
            0,
            0,
            1,
        ),
        (status(404, ""), false, 0, 1, 0),
        (status(501, ""), false, 0, 1, 0),
        (status(413, ""), false, 1, 0, 0),
        (grpc_status(3, ""), true, 0, 0, 1),
        (grpc_status(8, "message larger than max"), true, 1, 0, 0),
        (grpc_status(12, ""), true, 0, 1, 0),
        (status(404, ""), true, 0, 1, 0),
        (status(200, "<html>"), true, 0, 1, 0),
    ] {
        let (counts, message) = first_reply(reply, is_grpc).await;
        assert_eq!((counts.delivered, counts.attempts), (1, 2), "{message}");
        assert_eq!(counts.dropped.too_large, too_large, "{message}");
        assert_eq!(counts.dropped.unsupported, unsupported, "{message}");
        assert_eq!(counts.dropped.rejected, rejected, "{message}");
    }
}

#[tokio::test]
async fn a_response_before_the_end_of_the_request_is_read() {
    let server = Server::start(strict_pyroscope).await;
    let exporters = start(pyroscope(&server.url()));
    server.enqueue_reply(Reply::Early(413));
    exporters.push(&large(3 << 20));
    until(|| counts(&exporters).attempts > 0 && counts(&exporters).queued.total() == 0).await;
    assert_eq!(counts(&exporters).dropped.too_large, 1);
}

#[tokio::test]
async fn retry_after_is_respected() {
    let clock = Clock::stop();
    for status in [429, 503] {
        let server = Server::start(strict_pyroscope).await;
        server.enqueue_reply(with_header(status, "retry-after", "120"));
        let exporters = start(pyroscope(&server.url()));
        exporters.push(&numbered(1));
        until(|| exporters.status()[0].last_failure.is_some()).await;
        breathe().await;
        for _ in 0..119 {
            clock.pass(Duration::from_secs(1)).await;
        }
        assert_eq!(counts(&exporters).attempts, 1);
        clock.pass(Duration::from_secs(2)).await;
        until(|| counts(&exporters).delivered == 1).await;
    }
}

#[tokio::test]
async fn no_collector_silences_an_agent_for_ever() {
    let clock = Clock::stop();
    let server = Server::start(strict_pyroscope).await;
    server.enqueue_reply(with_header(429, "retry-after", "18446744073709551615"));
    let exporters = start(pyroscope(&server.url()));
    exporters.push(&numbered(1));
    until(|| counts(&exporters).failures.throttled == 1).await;
    breathe().await;
    clock.pass(Duration::from_secs(3_602)).await;
    until(|| counts(&exporters).delivered == 1).await;
}

#[tokio::test]
async fn a_batch_that_keeps_failing_is_dropped_after_max_elapsed() {
    let clock = Clock::stop();
    let server = Server::start(strict_pyroscope).await;
    for _ in 0..10_000 {
        server.enqueue_reply(status(500, "panic"));
    }
    let mut config = pyroscope(&server.url());
    config.retry.max_elapsed = 60 * MINUTE;
    let exporters = start(config);
    exporters.push(&numbered(1));
    until(|| counts(&exporters).attempts == 1).await;
    for _ in 0..59 {
        clock.pass(MINUTE).await;
    }
    assert_eq!(counts(&exporters).dropped.total(), 0);
    clock
        .pass_until(|| counts(&exporters).dropped.given_up == 1)
        .await;
}

#[tokio::test]
async fn each_batch_has_a_max_elapsed_of_its_own() {
    let clock = Clock::stop();
    let server = Server::start(strict_pyroscope).await;
    for _ in 0..10_000 {
        server.enqueue_reply(status(500, "panic"));
    }
    let mut config = pyroscope(&server.url());
    config.retry.max_elapsed = 20 * MINUTE;
    let exporters = start(config);
    // Of one service in one window, as two containers are.
    exporters.push(&numbered(1));
    exporters.push(&numbered(1));
    until(|| counts(&exporters).attempts == 1).await;
    clock
        .pass_until(|| counts(&exporters).dropped.given_up == 1)
        .await;
    for _ in 0..15 {
        clock.pass(MINUTE).await;
    }
    assert_eq!(counts(&exporters).queued.total(), 1);
    clock
        .pass_until(|| counts(&exporters).dropped.given_up == 2)
        .await;
}

/// The number of the service of a push.
fn number(received: &Received) -> usize {
    let service = &services(std::slice::from_ref(received))[0];
    service["service ".len()..].parse().unwrap()
}

fn fails_for_some(received: &Received) -> Reply {
    match number(received) {
        1 | 2 => status(500, "panic"),
        3..50 => status(403, "not for you"),
        _ => strict_pyroscope(received),
    }
}

/// Else one service that the collector does not accept held up all of the host.
#[tokio::test]
async fn what_fails_by_itself_holds_up_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::stop();
    for has_spool in [false, true] {
        let server = Server::start(fails_for_some).await;
        let mut config = pyroscope(&server.url());
        config.retry.max_elapsed = 20 * MINUTE;
        if has_spool {
            config = with_spool(config, folder.path());
        }
        let exporters = start(config);
        let start = time::Instant::now();
        for number in 1..=100 {
            exporters.push(&numbered(number));
        }
        clock
            .pass_until(|| counts(&exporters).delivered == 51)
            .await;
        // One that held up the others would do so for twenty minutes.
        let took = start.elapsed();
        assert!(took < MINUTE, "{took:?}");
        let rest = counts(&exporters);
        assert_eq!((rest.queued.total(), rest.dropped.total()), (49, 0));
        // Those are tried again, and given up in the end.
        let attempts = rest.attempts;
        clock
            .pass_until(|| counts(&exporters).dropped.given_up == 49)
            .await;
        assert!(start.elapsed() >= 20 * MINUTE);
        assert!(counts(&exporters).attempts >= attempts + 49 * 15);
        let delivered = server.received().into_iter().map(|it| number(&it));
        let mut delivered: Vec<_> = delivered.filter(|number| *number >= 50).collect();
        // Some of them were sent at the same time.
        delivered.sort_unstable();
        assert!(delivered.into_iter().eq(50..=100));
    }
}

/// More of them than are set aside are given up at once, the oldest first.
#[tokio::test]
async fn those_that_fail_by_themselves_are_bounded() {
    let clock = Clock::stop();
    let server = Server::start(fails_for_some).await;
    let exporters = start(pyroscope(&server.url()));
    for round in 0..4 {
        for number in 3..50 {
            exporters.push(&numbered(number));
        }
        exporters.push(&numbered(50 + round));
        let delivered = 1 + u64::try_from(round).unwrap();
        clock
            .pass_until(|| counts(&exporters).delivered == delivered)
            .await;
    }
    let counts = counts(&exporters);
    assert_eq!(counts.queued.total(), 64);
    assert_eq!(counts.dropped.given_up, 4 * 47 - 64);
}

/// What fails while nothing is delivered is not given up for others: they are all tried in turn.
#[tokio::test]
async fn when_all_fail_nothing_is_given_up() {
    let clock = Clock::stop();
    let server = Server::start(strict_pyroscope).await;
    // All of those that may be in doubt and one more, then some of them again.
    for _ in 0..65 + 34 {
        server.enqueue_reply(status(500, "panic"));
    }
    let mut config = pyroscope(&server.url());
    config.retry.longest = config.retry.first;
    let exporters = start(config);
    for number in 0..100 {
        exporters.push(&numbered(number));
    }
    clock
        .pass_until(|| counts(&exporters).delivered == 100)
        .await;
    let counts = counts(&exporters);
    assert_eq!(counts.dropped.total(), 0);
    assert_eq!((counts.failures.server_error, counts.attempts), (99, 199));
    assert_eq!(number(&server.received()[0]), 34);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_no_failure() {
    for is_grpc in [false, true] {
        let (server, config) = if is_grpc {
            let server = Server::start(strict_parca).await;
            let config = parca(&server.url());
            (server, config)
        } else {
            let server = Server::start(strict_pyroscope).await;
            let config = pyroscope(&server.url());
            (server, config)
        };
        let exporters = start(config);
        for number in 1..=5 {
            exporters.push(&numbered(number));
            until(|| counts(&exporters).delivered == number as u64).await;
            server.disconnect();
        }
        let counts = counts(&exporters);
        assert_eq!((counts.failures, counts.attempts), (Failures::default(), 5));
        assert_eq!(server.connections(), 5);
    }
}

#[tokio::test]
async fn an_endless_response_is_not_read() {
    let server = Server::start(strict_pyroscope).await;
    server.enqueue_reply(status(200, &"x".repeat(1 << 20)));
    let exporters = start(pyroscope(&server.url()));
    exporters.push(&numbered(1));
    until(|| counts(&exporters).failures.connection_closed == 1).await;
    let message = last_failure(&exporters);
    assert_eq!(message, "the response is longer than 65536 bytes");
}

#[tokio::test]
async fn an_error_status_counts_whatever_its_body_is() {
    for is_truncated in [false, true] {
        let server = Server::start(strict_pyroscope).await;
        server.enqueue_reply(Reply::Full(FullReply {
            status: 413,
            body: b"too large ".repeat(if is_truncated { 1 } else { 100_000 }),
            is_truncated,
            ..FullReply::default()
        }));
        let exporters = start(pyroscope(&server.url()));
        exporters.push(&numbered(1));
        until(|| counts(&exporters).dropped.too_large == 1).await;
        let message = last_failure(&exporters);
        assert!(message.starts_with("the server responded with HTTP status 413: too large"));
        assert!(message.len() < 300, "{message}");
    }
}

#[tokio::test]
async fn what_is_delivered_twice_is_the_same() {
    let server = Server::start(strict_pyroscope).await;
    server.enqueue_reply(Reply::TruncatedBody);
    let exporters = start(pyroscope(&server.url()));
    exporters.push(&numbered(1));
    until(|| counts(&exporters).delivered == 1).await;
    assert_eq!(services(&server.received()), ["service 001"]);
}
