//! Collectors that are down for an hour.

use std::net::SocketAddr;

use collector_doubles::{
    pyroscope::{services, strict_pyroscope},
    server::{Reply, Server},
};

use super::*;
use crate::export::support::SmallDisk;

const MINUTE: Duration = Duration::from_secs(60);

/// An address without a listener.
async fn unused_address() -> SocketAddr {
    Server::start(strict_pyroscope).await.address
}

/// An hour with a batch each minute.
async fn an_hour(exporters: &Exporters, clock: &Clock) {
    for minute in 0..60 {
        exporters.push(&of_window(minute, minute as usize));
        // In steps that are shorter than a wait: after each there is some real time for an attempt.
        for _ in 0..6 {
            clock.pass(MINUTE / 6).await;
        }
        counts(exporters);
    }
}

/// Starts the collector and returns the services it receives, in order.
async fn restart(exporters: &Exporters, clock: &Clock, address: SocketAddr) -> Vec<String> {
    let server = Server::start_at(address, strict_pyroscope, None).await;
    clock
        .pass_until(|| counts(exporters).queued.total() == 0)
        .await;
    services(&server.received())
}

fn names(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers
        .map(|number| format!("service {number:03}"))
        .collect()
}

#[tokio::test]
async fn with_a_spool_nothing_is_lost() {
    let clock = Clock::stop();
    let temporary = tempfile::tempdir().unwrap();
    let address = unused_address().await;
    let mut config = with_spool(pyroscope(&format!("http://{address}")), temporary.path());
    config.queue.max_batches = 4;
    let exporters = start(config);
    an_hour(&exporters, &clock).await;
    until(|| counts(&exporters).queued.spool == 60).await;
    let down = counts(&exporters);
    assert_eq!(down.queued.memory, 0, "{down:?}");
    // On a slow machine the clock may run ahead of a refusal.
    let refused = down.failures.unreachable + down.failures.timed_out;
    assert!(
        (down.attempts - 1..=down.attempts).contains(&refused),
        "{down:?}"
    );
    // Once a minute at least, and far from once a second.
    assert!((60..600).contains(&down.attempts), "{down:?}");

    assert_eq!(restart(&exporters, &clock, address).await, names(0..60));
    let back = counts(&exporters);
    assert_eq!((back.delivered, back.dropped.total()), (60, 0));
    assert_eq!(back.queued.spool_bytes, 0);
}

#[tokio::test]
async fn without_a_spool_the_newest_are_kept() {
    let clock = Clock::stop();
    let address = unused_address().await;
    let mut config = pyroscope(&format!("http://{address}"));
    config.queue.max_batches = 9;
    let exporters = start(config);
    an_hour(&exporters, &clock).await;
    let down = counts(&exporters);
    // The first one was in hand when the others began to wait.
    assert_eq!((down.queued.memory, down.dropped.queue_full), (10, 50));

    let expected = names(std::iter::once(0).chain(51..60));
    assert_eq!(restart(&exporters, &clock, address).await, expected);
}

#[tokio::test]
async fn a_spool_on_a_full_disk_keeps_what_it_can_and_counts_the_rest() {
    let disk = SmallDisk::mount(64 << 10);
    let clock = Clock::stop();
    let address = unused_address().await;
    let mut config = with_spool(pyroscope(&format!("http://{address}")), disk.path());
    config.queue.max_batches = 4;
    let exporters = start(config);
    an_hour(&exporters, &clock).await;
    let down = counts(&exporters);
    assert_eq!(down.delivered, 0);
    assert!(down.queued.spool > 3, "{down:?}");
    assert!(down.dropped.spool_full > 30, "{down:?}");

    let delivered = restart(&exporters, &clock, address).await;
    let first = 60 - delivered.len();
    assert_eq!(delivered, names(first..60));
    let back = counts(&exporters);
    assert_eq!(back.delivered + back.dropped.spool_full, 60, "{back:?}");
}

#[tokio::test]
async fn without_any_room_on_disk_memory_has_to_do() {
    let disk = SmallDisk::mount(64 << 10);
    let clock = Clock::stop();
    let address = unused_address().await;
    let mut config = with_spool(pyroscope(&format!("http://{address}")), disk.path());
    config.queue.max_batches = 9;
    let exporters = start(config);
    disk.fill();
    an_hour(&exporters, &clock).await;
    let down = counts(&exporters);
    assert_eq!((down.queued.memory, down.queued.spool), (10, 0), "{down:?}");
    assert!(down.spool_failures > 0);

    let expected = names(std::iter::once(0).chain(51..60));
    assert_eq!(restart(&exporters, &clock, address).await, expected);
}

#[tokio::test]
async fn a_collector_that_hangs_costs_no_batches_either() {
    let clock = Clock::stop();
    let temporary = tempfile::tempdir().unwrap();
    let server = Server::start(strict_pyroscope).await;
    let mut config = with_spool(pyroscope(&server.url()), temporary.path());
    config.queue.max_batches = 4;
    server.enqueue_reply(Reply::Hang);
    let exporters = start(config);
    // All of them while the first request has no response.
    for number in 0..20 {
        exporters.push(&numbered(number));
        breathe().await;
    }
    let hanging = counts(&exporters);
    assert_eq!((hanging.attempts, hanging.dropped.total()), (1, 0));
    assert!(hanging.queued.spool > 10, "{hanging:?}");

    clock
        .pass_until(|| counts(&exporters).delivered == 20)
        .await;
    // The first one waited for the destination while the others were tried.
    let mut delivered = services(&server.received());
    delivered.sort_unstable();
    assert_eq!(delivered, names(0..20));
    assert_eq!(counts(&exporters).failures.timed_out, 1);
}

#[tokio::test]
async fn a_destination_that_is_away_costs_the_others_nothing() {
    let clock = Clock::stop();
    let address = unused_address().await;
    let server = Server::start(strict_pyroscope).await;
    let configs = vec![
        pyroscope(&format!("http://{address}")),
        pyroscope(&server.url()),
    ];
    let exporters = Exporters::start(configs).unwrap();
    for number in 0..10 {
        exporters.push(&numbered(number));
        clock.pass(MINUTE).await;
    }
    until(|| exporters.status()[1].counts.delivered == 10).await;
    assert_eq!(checked(&exporters.status()[0]).queued.memory, 10);
}
