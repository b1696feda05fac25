//! Shutdown and restart.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use collector_doubles::{
    pyroscope::{services, strict_pyroscope},
    server::{Reply, Server},
};

use super::*;

#[tokio::test]
async fn what_waits_is_delivered_first() {
    let server = Server::start(strict_pyroscope).await;
    let exporters = start(pyroscope(&server.url()));
    for number in 0..50 {
        exporters.push(&numbered(number));
    }
    let status = exporters.shut_down(Duration::from_secs(60)).await;
    assert_eq!(checked(&status[0]).delivered, 50);
}

#[tokio::test]
async fn what_a_hanging_collector_has_not_taken_is_delivered_by_the_next_run() {
    let clock = Clock::stop();
    let temporary = tempfile::tempdir().unwrap();
    let server = Server::start(strict_pyroscope).await;
    server.enqueue_reply(Reply::Hang);
    let config = with_spool(pyroscope(&server.url()), temporary.path());
    let exporters = start(config.clone());
    for number in 0..10 {
        exporters.push(&of_window(number, number as usize));
    }
    until(|| counts(&exporters).attempts == 1).await;
    let end = tokio::spawn(exporters.shut_down(Duration::from_secs(5)));
    breathe().await;
    clock.pass(Duration::from_secs(6)).await;
    let first = checked(&end.await.unwrap()[0]);
    assert_eq!((first.delivered, first.queued.spool), (0, 10), "{first:?}");

    let exporters = start(config);
    until(|| counts(&exporters).delivered == 10).await;
    let second = counts(&exporters);
    assert_eq!((second.recovered, second.accepted), (10, 0));
    let expected: Vec<_> = (0..10)
        .map(|number| format!("service {number:03}"))
        .collect();
    assert_eq!(services(&server.received()), expected);
}

#[tokio::test]
async fn without_a_spool_what_is_left_is_counted() {
    let clock = Clock::stop();
    let server = Server::start(strict_pyroscope).await;
    server.enqueue_reply(Reply::Hang);
    let exporters = start(pyroscope(&server.url()));
    for number in 0..10 {
        exporters.push(&numbered(number));
    }
    until(|| counts(&exporters).attempts == 1).await;
    let end = tokio::spawn(exporters.shut_down(Duration::from_secs(5)));
    breathe().await;
    clock.pass(Duration::from_secs(6)).await;
    let counts = checked(&end.await.unwrap()[0]);
    assert_eq!((counts.delivered, counts.dropped.shut_down), (0, 10));
    assert_eq!(counts.queued.total(), 0);
}

#[tokio::test]
async fn a_collector_that_is_down_is_not_waited_for_when_there_is_a_spool() {
    let clock = Clock::stop();
    let temporary = tempfile::tempdir().unwrap();
    let address = Server::start(strict_pyroscope).await.address;
    let config = with_spool(pyroscope(&format!("http://{address}")), temporary.path());
    let exporters = start(config);
    exporters.push(&numbered(1));
    until(|| counts(&exporters).queued.spool == 1).await;
    exporters.push(&numbered(2));
    // The clock stands still: this ends by itself or not at all.
    let status = exporters.shut_down(Duration::from_secs(5)).await;
    assert_eq!(checked(&status[0]).queued.spool, 2);
    drop(clock);
}

#[tokio::test]
async fn a_parcel_that_was_torn_is_counted() {
    let temporary = tempfile::tempdir().unwrap();
    let server = Server::start(strict_pyroscope).await;
    let config = with_spool(pyroscope(&server.url()), temporary.path());
    std::fs::write(temporary.path().join("0000010000000000.parcel"), [0; 50]).unwrap();
    let exporters = start(config);
    exporters.push(&numbered(1));
    until(|| counts(&exporters).delivered == 1).await;
    let counts = counts(&exporters);
    assert_eq!((counts.recovered, counts.dropped.spool_torn), (1, 1));
}

#[tokio::test]
async fn a_torn_parcel_is_counted_wherever_it_stands() {
    for torn in 0..5 {
        let temporary = tempfile::tempdir().unwrap();
        let config = |url: &str| with_spool(pyroscope(url), temporary.path());
        let exporters = start(config("http://127.0.0.1:1"));
        for number in 0..5 {
            exporters.push(&of_window(number, number as usize));
        }
        until(|| counts(&exporters).queued.spool == 5).await;
        drop(exporters.shut_down(Duration::from_secs(5)).await);
        let mut parcels = payloads(temporary.path());
        parcels.sort();
        std::fs::write(&parcels[torn], [0; 50]).unwrap();

        let server = Server::start(strict_pyroscope).await;
        let exporters = start(config(&server.url()));
        until(|| counts(&exporters).queued.total() == 0).await;
        let counts = counts(&exporters);
        assert_eq!(
            (
                counts.recovered,
                counts.delivered,
                counts.dropped.spool_torn
            ),
            (5, 4, 1),
            "{torn}"
        );
    }
}

#[tokio::test]
async fn a_spool_is_not_shared() {
    let temporary = tempfile::tempdir().unwrap();
    let config = with_spool(pyroscope("http://127.0.0.1:1"), temporary.path());
    let error = Exporters::start(vec![config.clone(), config])
        .err()
        .unwrap();
    assert!(error.to_string().contains("in use by another"), "{error}");
}

/// Variable of the process that will be killed: the folder of its spool.
const VICTIM: &str = "AGENT_TEST_EXPORT_VICTIM";

/// The files of the payloads in a folder.
fn payloads(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "parcel"))
        .collect()
}

/// Pushes batches without end to a collector that is down.
async fn be_killed(folder: &Path) -> ! {
    let exporters = start(with_spool(pyroscope("http://127.0.0.1:1"), folder));
    for number in 0.. {
        exporters.push(&of_window(number, number as usize));
        breathe().await;
    }
    unreachable!()
}

#[tokio::test]
async fn what_is_in_the_spool_outlives_a_kill() {
    if let Some(folder) = env::var_os(VICTIM) {
        be_killed(Path::new(&folder)).await;
    }
    let temporary = tempfile::tempdir().unwrap();
    let name = "export::tests::shut_down::what_is_in_the_spool_outlives_a_kill";
    let mut victim = Command::new(env::current_exe().unwrap())
        .args([name, "--exact"])
        .env(VICTIM, temporary.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until(|| payloads(temporary.path()).len() >= 30).await;
    victim.kill().unwrap();
    victim.wait().unwrap();
    let left = payloads(temporary.path()).len() as u64;

    let server = Server::start(strict_pyroscope).await;
    let exporters = start(with_spool(pyroscope(&server.url()), temporary.path()));
    until(|| counts(&exporters).queued.total() == 0).await;
    let counts = counts(&exporters);
    assert_eq!(
        (counts.recovered, counts.delivered),
        (left, left - counts.dropped.spool_torn)
    );
    // Only what was being written when it was killed may be torn.
    assert!(counts.dropped.spool_torn <= 1, "{counts:?}");
    let expected = (0..counts.delivered).map(|number| format!("service {number:03}"));
    assert_eq!(services(&server.received()), expected.collect::<Vec<_>>());
}
