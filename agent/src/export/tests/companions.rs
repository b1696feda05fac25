//! Payloads that are sent at the same time.

use std::path::Path;

use collector_doubles::{
    pyroscope::{services, strict_pyroscope},
    server::{Reply, Server, status, with_header},
};

use super::*;
use crate::export::spool::{Front, Spool};

/// Time of a round trip.
const ROUND_TRIP: Duration = Duration::from_millis(50);

async fn distant_server() -> Server {
    let server = Server::start(strict_pyroscope).await;
    server.set_delay(ROUND_TRIP);
    server
}

fn names(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers
        .map(|number| format!("service {number:03}"))
        .collect()
}

/// The services that were received, sorted.
fn sorted(server: &Server) -> Vec<String> {
    let mut services = services(&server.received());
    services.sort_unstable();
    services
}

/// Else a host with many series could not deliver a window before the next one ends.
#[tokio::test]
async fn a_distant_collector_is_sent_several_profiles_at_a_time() {
    let server = distant_server().await;
    let exporters = start(pyroscope(&server.url()));
    let start = time::Instant::now();
    for number in 0..200 {
        exporters.room().await;
        exporters.push(&numbered(number));
    }
    until(|| counts(&exporters).queued.total() == 0).await;
    let took = start.elapsed();
    // One after the other they would take 10 seconds.
    assert!(took < 150 * ROUND_TRIP, "{took:?}");
    let counts = counts(&exporters);
    assert_eq!((counts.delivered, counts.attempts), (200, 200));
    assert_eq!(server.connections(), 4);
}

/// They may be of the same series.
#[tokio::test]
async fn profiles_of_different_windows_are_sent_one_after_the_other() {
    let server = distant_server().await;
    let exporters = start(pyroscope(&server.url()));
    let start = time::Instant::now();
    for window in 0..20 {
        exporters.push(&of_window(window, 20 - window as usize));
    }
    until(|| counts(&exporters).delivered == 20).await;
    assert!(start.elapsed() >= 20 * ROUND_TRIP);
    assert_eq!(server.connections(), 1);
    assert_eq!(services(&server.received()), names((1..=20).rev()));
}

/// Leaves batches of two windows in a spool.
async fn fill_spool(folder: &Path) {
    let exporters = start(with_spool(pyroscope("http://127.0.0.1:1"), folder));
    for number in 0..100 {
        exporters.push(&of_window(u32::from(number >= 50), number));
    }
    until(|| counts(&exporters).failures.unreachable > 0).await;
    let status = exporters.shut_down(Duration::ZERO).await;
    assert_eq!(checked(&status[0]).queued.spool, 100);
}

#[tokio::test]
async fn a_spool_is_emptied_as_fast() {
    let temporary = tempfile::tempdir().unwrap();
    fill_spool(temporary.path()).await;
    let server = distant_server().await;
    // Two of the first ones at the same time fail.
    for _ in 0..3 {
        server.enqueue_reply(status(200, ""));
    }
    for _ in 0..2 {
        server.enqueue_reply(status(503, ""));
    }
    let start_at = time::Instant::now();
    let exporters = start(with_spool(pyroscope(&server.url()), temporary.path()));
    until(|| counts(&exporters).queued.total() == 0).await;
    let took = start_at.elapsed();
    assert!(took < 80 * ROUND_TRIP, "{took:?}");
    let counts = counts(&exporters);
    assert_eq!((counts.recovered, counts.delivered), (100, 100));
    assert_eq!(counts.attempts, 102, "{counts:?}");
    // The first window comes before the second one.
    let received = services(&server.received());
    let (first, second) = received.split_at(50);
    assert!(first.iter().max() < second.iter().min());
    assert_eq!(sorted(&server), names(0..100));
}

/// The names of the payloads in a spool, which sort by window and service.
fn spooled(config: &ExporterConfig) -> Vec<String> {
    let (mut spool, _) = Spool::open(config.spool.as_ref().unwrap(), *b"pyro").unwrap();
    let mut names = Vec::new();
    while let Front::Payload(payload) = spool.hold_front() {
        names.push(payload.name);
        spool.remove_front();
    }
    names
}

#[tokio::test]
async fn those_that_hang_are_left_to_the_next_run_in_their_order() {
    let clock = Clock::stop();
    for has_spooled in [false, true] {
        let temporary = tempfile::tempdir().unwrap();
        let server = Server::start(strict_pyroscope).await;
        let config = with_spool(pyroscope(&server.url()), temporary.path());
        if has_spooled {
            fill_spool(temporary.path()).await;
        }
        server.enqueue_reply(status(200, ""));
        for _ in 0..4 {
            server.enqueue_reply(Reply::Hang);
        }
        let exporters = start(config.clone());
        for number in 0..10 {
            exporters.push(&of_window(2, number));
        }
        until(|| counts(&exporters).attempts == 5).await;
        let end = tokio::spawn(exporters.shut_down(Duration::from_secs(5)));
        breathe().await;
        clock.pass(Duration::from_secs(6)).await;
        let ended = checked(&end.await.unwrap()[0]);
        let left = if has_spooled { 109 } else { 9 };
        assert_eq!(
            (ended.delivered, ended.queued.spool),
            (1, left),
            "{ended:?}"
        );
        let names = spooled(&config);
        assert_eq!(names.len() as u64, left);
        assert!(names.is_sorted(), "{names:?}");
    }
}

/// A companion waits as long as any other for what the collector asks for.
#[tokio::test]
async fn the_collector_is_given_time_for_all_of_them() {
    let clock = Clock::stop();
    for refused in 1..=4 {
        let server = Server::start(strict_pyroscope).await;
        let exporters = start(pyroscope(&server.url()));
        exporters.push(&numbered(0));
        until(|| counts(&exporters).delivered == 1).await;
        for _ in 0..refused {
            server.enqueue_reply(with_header(429, "retry-after", "120"));
        }
        for number in 1..=4 {
            exporters.push(&numbered(number));
        }
        until(|| counts(&exporters).failures.throttled == refused).await;
        breathe().await;
        for _ in 0..119 {
            clock.pass(Duration::from_secs(1)).await;
        }
        assert_eq!(counts(&exporters).attempts, 5);
        clock.pass_until(|| counts(&exporters).delivered == 5).await;
        assert_eq!(sorted(&server), names(0..5));
    }
}
