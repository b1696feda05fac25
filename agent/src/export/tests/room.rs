//! Queues that are full.

use collector_doubles::{pyroscope::strict_pyroscope, server::Server};

use super::*;

/// More than a queue has room for.
const MANY: usize = 1000;

/// Waits for room, then pushes, as the main loop does.
async fn push_with_room(exporters: &Exporters, number: usize) {
    exporters.room().await;
    exporters.push(&numbered(number));
}

#[tokio::test]
async fn nothing_is_dropped_while_deliveries_work() {
    let server = Server::start(strict_pyroscope).await;
    let exporters = start(pyroscope(&server.url()));
    for number in 0..MANY {
        push_with_room(&exporters, number).await;
    }
    until(|| counts(&exporters).queued.total() == 0).await;
    let counts = counts(&exporters);
    assert_eq!((counts.delivered, counts.dropped.total()), (1000, 0));
}

#[tokio::test]
async fn nobody_waits_for_deliveries_that_fail() {
    let address = Server::start(strict_pyroscope).await.address;
    let exporters = start(pyroscope(&format!("http://{address}")));
    exporters.push(&numbered(0));
    until(|| counts(&exporters).failures.unreachable > 0).await;
    for number in 1..MANY {
        push_with_room(&exporters, number).await;
    }
    let counts = counts(&exporters);
    assert_eq!(counts.accepted, 1000);
    assert!(counts.dropped.queue_full > 700, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_the_limit_for_a_delivery_that_does_not_end() {
    let queue = ExportQueue::new(QueueLimits::default());
    let batch = numbered(0);
    for _ in 0..QueueLimits::default().max_batches {
        queue.room().await;
        assert!(!queue.push(&batch));
    }
    let full = time::Instant::now();
    queue.room().await;
    assert_eq!(full.elapsed().as_secs(), 10);
    // It is said once that batches are dropped.
    assert_eq!([queue.push(&batch), queue.push(&batch)], [true, false]);
    queue.take();
    let freed = time::Instant::now();
    queue.room().await;
    assert_eq!(freed.elapsed().as_secs(), 0);
}
