use std::{
    io,
    sync::mpsc::{Receiver, TryRecvError, channel},
    time::Duration,
};

use super::{Failure, Lane, Subject, Workers, charge, thread_cpu_time};

const LONG: Duration = Duration::from_secs(60);

const SHORT: Duration = Duration::from_millis(50);

fn file(name: &str) -> Subject {
    Subject::new(("file", name), name)
}

/// A job that ends when the sender of the channel is dropped.
fn blocked(gate: Receiver<()>) -> impl FnOnce() + Send + 'static {
    move || {
        let _ = gate.recv();
    }
}

#[test]
fn results_come_back() {
    let workers = Workers::default();
    let pending: Vec<_> = (0..100)
        .map(|number| workers.submit(Lane::Tables, file("a"), LONG, move || number))
        .collect();
    for (number, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait(), Ok(number));
    }
}

#[test]
fn a_job_that_does_not_end_is_given_up_and_its_thread_replaced() {
    let workers = Workers::default();
    let (open, gate) = channel();
    let stuck = workers.submit(Lane::Symbols, file("stuck"), SHORT, blocked(gate));
    let behind = workers.submit(Lane::Symbols, file("behind"), LONG, || 7);
    assert!(matches!(stuck.wait(), Err(Failure::TimedOut { subject, .. }) if subject == "stuck"));
    assert_eq!(behind.wait(), Ok(7));

    let again = workers.submit(Lane::Symbols, file("stuck"), LONG, || ());
    assert!(matches!(again.wait(), Err(Failure::Quarantined { .. })));
    let status = workers.status();
    assert_eq!(status.quarantines, 1);
    assert_eq!(status.quarantined[0].name, "stuck");
    let lane = status.lanes.iter().find(|lane| lane.lane == Lane::Symbols);
    assert_eq!(
        lane.map(|lane| (lane.abandoned, lane.timed_out)),
        Some((1, 1))
    );

    workers.release(&file("stuck"));
    let again = workers.submit(Lane::Symbols, file("stuck"), LONG, || 8);
    assert_eq!(again.wait(), Ok(8));
    // The thread that was given up ends with its job.
    drop(open);
    while workers
        .status()
        .lanes
        .iter()
        .any(|lane| lane.abandoned != 0)
    {
        std::thread::yield_now();
    }
}

#[test]
fn threads_that_are_given_up_are_bounded_and_nobody_waits_for_ever() {
    let workers = Workers::default();
    let mut gates = Vec::new();
    let results: Vec<_> = (0..50)
        .map(|number| {
            let (open, gate) = channel();
            gates.push(open);
            let subject = file(&number.to_string());
            workers.submit(Lane::Memory, subject, SHORT, blocked(gate))
        })
        .collect();
    let results: Vec<_> = results.into_iter().map(super::Pending::wait).collect();
    let timed_out = |result: &&Result<(), _>| matches!(result, Err(Failure::TimedOut { .. }));
    assert_eq!(results.iter().filter(timed_out).count(), 8);
    let overloaded = |result: &&Result<(), _>| matches!(result, Err(Failure::Overloaded));
    assert_eq!(results.iter().filter(overloaded).count(), 42);
    // Another kind of work goes on.
    let other = workers.submit(Lane::Tables, file("other"), LONG, || 1);
    assert_eq!(other.wait(), Ok(1));
    // And so does this one when the threads are free again.
    drop(gates);
    while workers
        .status()
        .lanes
        .iter()
        .any(|lane| lane.abandoned != 0)
    {
        std::thread::yield_now();
    }
    let after = workers.submit(Lane::Memory, file("after"), LONG, || 2);
    assert_eq!(after.wait(), Ok(2));
}

/// Uses this much processor time.
fn spend(time: Duration) {
    let end = thread_cpu_time() + time;
    while thread_cpu_time() < end {}
}

#[test]
fn what_a_sample_needs_does_not_wait_for_processor_time_to_be_earned() {
    let workers = Workers::default();
    // Nothing is earned: jobs that can wait begin again after the longest pause.
    workers.limit_cpu(1e-9);
    let costly = workers.submit(Lane::Tables, file("costly"), LONG, || {
        spend(Duration::from_millis(2100));
    });
    assert_eq!(costly.wait(), Ok(()));
    let status = || {
        let lanes = workers.status().lanes;
        let tables = lanes.into_iter().find(|lane| lane.lane == Lane::Tables);
        tables.unwrap()
    };
    while status().done == 0 {
        std::thread::yield_now();
    }
    let (done, order) = channel();
    let waiting = ["first", "second", "third"].map(|name| {
        let done = done.clone();
        let job = move || done.send(name);
        workers.submit(Lane::Tables, file(name), LONG, job)
    });
    workers.hasten(Lane::Tables, &file("third"));
    workers.hasten(Lane::Tables, &file("unknown"));
    assert_eq!(order.recv(), Ok("third"));
    assert_eq!(order.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(status().waiting, 2);
    // Those that wait are answered when the workers end.
    drop(workers);
    let [first, second, third] = waiting;
    assert!(matches!(third.wait(), Ok(Ok(()))));
    for pending in [first, second] {
        assert!(matches!(pending.wait(), Err(Failure::Overloaded)));
    }
}

#[test]
fn a_job_that_reads_past_its_budget_ends_itself() {
    let workers = Workers::default();
    let reads = || -> io::Result<()> {
        loop {
            charge(1 << 20)?;
        }
    };
    let result = workers.submit(Lane::Symbols, file("large"), LONG, reads);
    assert!(result.wait().unwrap().is_err());
    let again = workers.submit(Lane::Symbols, file("large"), LONG, || ());
    assert!(matches!(again.wait(), Err(Failure::Quarantined { .. })));
    assert!(charge(usize::MAX).is_ok(), "no job, no budget");
}

#[test]
fn a_panic_is_a_failure_of_its_job_alone() {
    let workers = Workers::default();
    let panics = workers.submit(Lane::Tables, file("a"), LONG, || {
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(matches!(panics.wait(), Err(Failure::Panicked { .. })));
    assert_eq!(
        workers.submit(Lane::Tables, file("a"), LONG, || 1).wait(),
        Ok(1)
    );
}
