use agent_common::record::{Header, MemoryType, RecordKind};

use super::*;

fn sample(tid: u32, stack: u64, wait: WaitReason) -> Sample {
    Sample {
        header: Header {
            kind: RecordKind::SAMPLE,
            reserved: 0,
            bytes: 72,
        },
        time_ns: 5,
        stack,
        native_stack: 0,
        tgid: 1,
        tid,
        value: 100,
        count: 1,
        kind: ProfileKind::WALL,
        python_status: PythonUnwindStatus::COMPLETE,
        holds_gil: 0,
        collects_garbage: 0,
        native_status: NativeUnwindStatus::COMPLETE,
        wait,
        memory: MemoryType::NONE,
        task: 0,
    }
}

fn running(tid: u32, stack: u64, python_status: PythonUnwindStatus) -> Sample {
    Sample {
        kind: ProfileKind::CPU,
        python_status,
        ..sample(tid, stack, WaitReason::NONE)
    }
}

/// A pass in which thread 2 sleeps and thread 3 runs.
fn batch() -> Batch {
    let mut batch = Batch::default();
    batch.samples.push(sample(2, 7, WaitReason::SLEEP));
    batch.running.push(RunningThread {
        tgid: 1,
        tid: 3,
        elapsed_ns: 100,
        is_runnable: false,
        holds_gil: None,
        is_new: false,
    });
    batch
}

fn progress(snapshot: &Snapshot) -> SnapshotProgress {
    *snapshot.0.progress.borrow()
}

fn is_complete(snapshot: &Snapshot) -> bool {
    progress(snapshot) == SnapshotProgress::Complete
}

fn stack(snapshot: &Snapshot, tid: u32) -> Option<u64> {
    let threads = snapshot.threads();
    let thread = threads.iter().find(|thread| thread.tid == tid)?;
    Some(thread.stack?.sample.stack)
}

#[test]
fn it_is_complete_when_each_thread_has_its_stack() {
    let snapshot = Snapshot::default();
    assert_eq!(progress(&snapshot), SnapshotProgress::Passes);
    snapshot.add_batch(&batch());
    snapshot.add_batch(&batch());
    assert_eq!(progress(&snapshot), SnapshotProgress::Running);
    assert_eq!(snapshot.running_without_stack(), [(1, 3)]);
    assert_eq!((stack(&snapshot, 2), stack(&snapshot, 3)), (Some(7), None));
    snapshot.ask_for_samples();
    assert_eq!(progress(&snapshot), SnapshotProgress::NeedsSamples);
    snapshot.add_sample(&running(3, 8, PythonUnwindStatus::COMPLETE));
    assert!(is_complete(&snapshot));
    assert_eq!(stack(&snapshot, 3), Some(8));
}

#[test]
fn another_one_begins_with_nothing() {
    let snapshot = Snapshot::default();
    snapshot.add_batch(&batch());
    snapshot.add_batch(&batch());
    snapshot.add_sample(&running(3, 8, PythonUnwindStatus::COMPLETE));
    assert!(is_complete(&snapshot));
    snapshot.clear();
    assert_eq!(progress(&snapshot), SnapshotProgress::Passes);
    assert!(snapshot.threads().is_empty());
    let mut next = Batch::default();
    next.samples.push(sample(2, 9, WaitReason::SLEEP));
    snapshot.add_batch(&next);
    assert!(!is_complete(&snapshot));
    snapshot.add_batch(&next);
    assert!(is_complete(&snapshot));
    assert_eq!(stack(&snapshot, 2), Some(9));
}

#[test]
fn a_deadlock_needs_a_second_pass() {
    let snapshot = Snapshot::default();
    let mut batch = batch();
    batch.running.clear();
    snapshot.add_batch(&batch);
    assert_eq!(progress(&snapshot), SnapshotProgress::Passes);
    snapshot.add_batch(&batch);
    assert!(is_complete(&snapshot));
}

#[test]
fn the_first_stack_stays_unless_frames_are_missing() {
    let snapshot = Snapshot::default();
    snapshot.add_batch(&batch());
    snapshot.add_sample(&running(2, 9, PythonUnwindStatus::COMPLETE));
    assert_eq!(stack(&snapshot, 2), Some(7));
    for (status, number, expected) in [
        (PythonUnwindStatus::TORN, 10, None),
        (PythonUnwindStatus::FRAME_FAULT, 11, Some(11)),
        (PythonUnwindStatus::FRAME_FAULT, 12, Some(11)),
        (PythonUnwindStatus::COMPLETE, 13, Some(13)),
        (PythonUnwindStatus::COMPLETE, 14, Some(13)),
    ] {
        snapshot.add_sample(&running(3, number, status));
        assert_eq!(stack(&snapshot, 3), expected);
    }
}

/// A pass in which thread 2 sleeps, in a file with or without a table.
fn batch_of_file(native_status: NativeUnwindStatus, stack: u64) -> Batch {
    let mut batch = Batch::default();
    let sample = sample(2, stack, WaitReason::SLEEP);
    batch.samples.push(Sample {
        native_status,
        ..sample
    });
    batch
}

#[test]
fn a_table_that_is_being_loaded_is_waited_for() {
    let snapshot = Snapshot::default();
    let without_table = batch_of_file(NativeUnwindStatus::NO_TABLE, 7);
    snapshot.add_batch(&without_table);
    snapshot.set_tables(true, 0);
    for _ in 0..100 {
        snapshot.add_batch(&without_table);
    }
    assert!(!is_complete(&snapshot));
    snapshot.set_tables(false, 1);
    // Passes that had begun before, or that have not read it again.
    for _ in 0..PASSES_TO_READ_AGAIN {
        snapshot.add_batch(&without_table);
        assert!(!is_complete(&snapshot));
    }
    assert_eq!(progress(&snapshot), SnapshotProgress::Passes);
    snapshot.add_batch(&batch_of_file(NativeUnwindStatus::COMPLETE, 8));
    assert!(is_complete(&snapshot));
    assert_eq!(stack(&snapshot, 2), Some(8));
}

#[test]
fn a_stack_of_elsewhere_is_not_taken_while_a_table_is_being_loaded() {
    let snapshot = Snapshot::default();
    let without_table = Sample {
        native_status: NativeUnwindStatus::NO_TABLE,
        ..running(3, 7, PythonUnwindStatus::COMPLETE)
    };
    let complete = running(3, 8, PythonUnwindStatus::COMPLETE);
    snapshot.add_sample(&without_table);
    snapshot.set_tables(true, 0);
    snapshot.add_sample(&complete);
    assert_eq!(stack(&snapshot, 3), Some(7));
    snapshot.set_tables(false, 1);
    snapshot.add_sample(&complete);
    assert_eq!(stack(&snapshot, 3), Some(8));
}

#[test]
fn a_table_that_is_not_loaded_is_not_waited_for() {
    let snapshot = Snapshot::default();
    let without_table = batch_of_file(NativeUnwindStatus::NO_TABLE, 7);
    let passes = (1..100).find(|_| {
        snapshot.add_batch(&without_table);
        // There is no room.
        snapshot.ask_for_table();
        snapshot.set_tables(false, 0);
        is_complete(&snapshot)
    });
    assert_eq!(passes, Some(PASSES_TO_READ_AGAIN + 2));
    assert_eq!(stack(&snapshot, 2), Some(7));
}

#[test]
fn a_stack_that_was_not_proved_is_none_and_a_thread_that_has_ended_is_not_waited_for() {
    let snapshot = Snapshot::default();
    let mut batch = batch();
    batch.samples[0].python_status = PythonUnwindStatus::TORN;
    snapshot.add_batch(&batch);
    assert_eq!((stack(&snapshot, 2), stack(&snapshot, 3)), (None, None));
    assert_eq!(snapshot.threads().len(), 2);
    snapshot.add_batch(&Batch::default());
    assert!(is_complete(&snapshot));
    assert!(snapshot.threads().is_empty());
}
