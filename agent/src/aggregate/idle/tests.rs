//! Samples of passes in profiles: markers, idle threads, and the kind that is derived.

use std::time::{Duration, SystemTime};

use agent_common::{
    decoded::{NativeStack, Stack},
    record::{
        Frame, FrameKind as WireKind, Header, MemoryType, NativeFrame, NativeKind,
        NativeUnwindStatus, ProfileKind, PythonUnwindStatus, RecordKind, Sample, WaitReason,
    },
};

use crate::{
    aggregate::{Blocked, Filter, ProfileTiming, fixtures::Aggregator},
    profile::{
        Executable, ExecutableKind, FilteredOut, FrameKind, Function, Kind, Periods, Profile, Wait,
        kinds::{gil, lock, lock_release, off_cpu, wall},
    },
    symbolize::{NativeFunction, SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame},
};

const PERIOD_NS: u64 = 10_000_000;

/// Functions by the number of their code object, the first one by 1.
const FUNCTIONS: [(&str, &str); 4] = [
    ("main", "/srv/app.py"),
    ("EpollSelector.select", "/usr/lib/python3.12/selectors.py"),
    (
        "BaseEventLoop._run_once",
        "/usr/lib/python3.12/asyncio/base_events.py",
    ),
    ("load", "/srv/app.py"),
];

struct Functions;

impl SymbolizeFrames for Functions {
    fn python(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame> {
        let index = usize::try_from(frame.symbol).ok()?.checked_sub(1)?;
        let (name, file) = FUNCTIONS.get(index)?;
        Some(SymbolizedPythonFrame {
            function: Function {
                name: (*name).to_owned(),
                file: (*file).to_owned(),
                first_line: None,
                kind: FrameKind::Python,
            },
            line: None,
        })
    }

    fn native(&mut self, _tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame {
        let name = ["futex_wait", "runtime.futex", "runtime.stopm"]
            [usize::try_from(frame.address).unwrap()];
        let kind = match frame.kind {
            NativeKind::KERNEL => ExecutableKind::Kernel,
            _ => ExecutableKind::File,
        };
        SymbolizedNativeFrame {
            executable: Executable {
                path: "/srv/server".into(),
                build_id: None,
                kind,
                start: 0,
                limit: 0,
                file_offset: 0,
            }
            .into(),
            address: frame.address,
            functions: Ok([NativeFunction {
                name: name.into(),
                file: None,
                line: None,
            }]
            .into()),
        }
    }
}

/// A sample of a pass with a Python stack.
fn sample(stack: u64, wait: WaitReason) -> Sample {
    Sample {
        header: Header {
            kind: RecordKind::SAMPLE,
            reserved: 0,
            bytes: 72,
        },
        time_ns: 0,
        stack,
        native_stack: 0,
        tgid: 1,
        tid: 1,
        value: PERIOD_NS,
        count: 1,
        kind: ProfileKind::WALL,
        python_status: PythonUnwindStatus::COMPLETE,
        holds_gil: 0,
        collects_garbage: 0,
        native_status: NativeUnwindStatus::NOT_WALKED,
        wait,
        memory: MemoryType::NONE,
        task: 0,
    }
}

fn python_stack(hash: u64, symbols: &[u64]) -> Stack {
    let frame = |symbol: &u64| Frame {
        symbol: *symbol,
        instruction_offset: 0,
        kind: WireKind::PYTHON,
    };
    Stack {
        hash,
        frames: symbols.iter().map(frame).collect(),
        gap: None,
    }
}

/// Stack 1 is that of the program, 2 that of an event loop without work, native stack 3 that of a
/// thread of Go without work.
fn aggregator(samples: &[Sample]) -> Aggregator {
    let mut aggregator = Aggregator::default();
    aggregator.add_stack(python_stack(1, &[4, 1]));
    aggregator.add_stack(python_stack(2, &[2, 3, 1]));
    let native = |(address, kind)| NativeFrame {
        address,
        id_or_count: 1,
        kind,
    };
    let frames = [
        (0, NativeKind::KERNEL),
        (1, NativeKind::FILE),
        (2, NativeKind::FILE),
    ];
    aggregator.add_native_stack(NativeStack {
        hash: 3,
        frames: frames.into_iter().map(native).collect(),
    });
    for sample in samples {
        aggregator.add_sample(sample);
    }
    aggregator
}

fn profile(aggregator: &Aggregator, kind: &'static Kind, idle: bool) -> Profile {
    let about = ProfileTiming {
        kind,
        start: SystemTime::UNIX_EPOCH,
        duration: Duration::from_secs(1),
        periods: Periods::new(100, None),
    };
    let filter = Filter {
        idle,
        ..Filter::default()
    };
    aggregator.profile(&about, &filter, &mut Functions)
}

/// Stacks with their counts, root first.
fn lines(profile: &Profile) -> Vec<String> {
    let name = |id: &_| {
        let line = profile.location(*id).lines[0];
        profile.function(line.function).name.clone()
    };
    let samples = profile.samples.iter().map(|sample| {
        let stack = profile.stacks[sample.stack.0 as usize].iter().rev();
        let names: Vec<_> = stack.map(name).collect();
        format!("{} {}", names.join(";"), sample.count)
    });
    let mut lines: Vec<_> = samples.collect();
    lines.sort();
    lines
}

#[test]
fn what_a_thread_waits_for_is_the_leaf() {
    let aggregator = aggregator(&[
        sample(1, WaitReason::NONE),
        sample(1, WaitReason::RUNNABLE),
        sample(1, WaitReason::GIL),
        sample(1, WaitReason::GIL),
        sample(1, WaitReason(77)),
        sample(1, WaitReason::STOPPED),
        Sample {
            python_status: PythonUnwindStatus::NO_THREAD_STATE,
            ..sample(0, WaitReason::PAGE_FAULT)
        },
    ]);
    let profile = profile(&aggregator, &wall::KIND, false);
    assert_eq!(
        lines(&profile),
        [
            "[no Python];[waiting: page fault] 1",
            "main;load 1",
            "main;load;[runnable] 1",
            "main;load;[stopped] 1",
            "main;load;[waiting: gil] 2",
            "main;load;[waiting: other] 1",
        ]
    );
    let mut waits: Vec<_> = profile
        .samples
        .iter()
        .map(|it| profile.wait_of(it))
        .collect();
    waits.sort();
    let all = [
        Wait::Runnable,
        Wait::Gil,
        Wait::PageFault,
        Wait::Stopped,
        Wait::Other,
    ];
    let all: Vec<_> = [None].into_iter().chain(all.map(Some)).collect();
    assert_eq!(waits, all);
    assert_eq!(profile.total_value(), 7 * PERIOD_NS);
    assert_eq!(profile.period, PERIOD_NS);
}

#[test]
fn time_off_the_cpu_is_derived_from_elapsed_time() {
    let cpu = Sample {
        kind: ProfileKind::CPU,
        ..sample(1, WaitReason::NONE)
    };
    let aggregator = aggregator(&[
        cpu,
        sample(1, WaitReason::NONE),
        sample(1, WaitReason::RUNNABLE),
        sample(1, WaitReason::LOCK),
    ]);
    let off_cpu = profile(&aggregator, &off_cpu::KIND, false);
    assert_eq!(
        lines(&off_cpu),
        ["main;load;[runnable] 1", "main;load;[waiting: lock] 1"]
    );
    assert_eq!(profile(&aggregator, &wall::KIND, false).total(), 3);
    assert_eq!(
        lines(&profile(&aggregator, &crate::profile::CPU, false)),
        ["main;load 1"]
    );
}

#[test]
fn samples_that_are_recorded_as_a_derived_kind_are_malformed() {
    let derived = Sample {
        kind: ProfileKind::OFF_CPU,
        ..sample(1, WaitReason::LOCK)
    };
    let profile = profile(&aggregator(&[derived]), &off_cpu::KIND, false);
    assert_eq!((profile.total(), profile.losses.malformed_records), (0, 1));
}

#[test]
fn idle_threads_are_left_out_or_have_a_root_of_their_own() {
    let go = Sample {
        tid: 2,
        native_stack: 3,
        python_status: PythonUnwindStatus::NO_THREAD_STATE,
        native_status: NativeUnwindStatus::COMPLETE,
        ..sample(0, WaitReason::LOCK)
    };
    let aggregator = aggregator(&[
        sample(1, WaitReason::LOCK),
        sample(2, WaitReason::POLL),
        sample(2, WaitReason::POLL),
        sample(2, WaitReason::RUNNABLE),
        go,
    ]);
    let with = profile(&aggregator, &wall::KIND, true);
    assert_eq!(
        lines(&with),
        [
            "[idle];main;BaseEventLoop._run_once;EpollSelector.select;[waiting: poll] 2",
            "[idle];runtime.stopm;runtime.futex;futex_wait;[waiting: lock] 1",
            "main;BaseEventLoop._run_once;EpollSelector.select;[runnable] 1",
            "main;load;[waiting: lock] 1",
        ]
    );
    assert!(with.filtered_out.is_empty());

    let without = profile(&aggregator, &wall::KIND, false);
    assert_eq!(
        lines(&without),
        [
            "main;BaseEventLoop._run_once;EpollSelector.select;[runnable] 1",
            "main;load;[waiting: lock] 1",
        ]
    );
    let left_out = FilteredOut {
        idle_ns: 3 * PERIOD_NS,
        ..FilteredOut::default()
    };
    assert_eq!(without.filtered_out, left_out);
    // Nothing of them is in its tables.
    assert_eq!((without.threads.len(), without.stacks.len()), (1, 2));
    assert!(
        without
            .functions
            .iter()
            .all(|function| function.name != "runtime.stopm")
    );
    assert_eq!(without.unwind_stats, []);
}

/// Of who waits for a lock and who releases it: what the leaf says, and that waits for work are left out of both.
#[test]
fn whoever_ends_the_wait_of_an_idle_thread_kept_nobody_waiting() {
    const LOCK: u64 = 5;
    let of_kind = |kind, of: Sample| Sample { kind, ..of };
    let mut aggregator = aggregator(&[]);
    aggregator.add_lock(LOCK, "Pool.jobs (Queue)");
    aggregator.add_thread(1, 2, "worker".to_owned());
    let waiting = |stacks| Blocked {
        thread: 2,
        lock: LOCK,
        stacks,
        ..Blocked::default()
    };
    let release = of_kind(ProfileKind::LOCK_RELEASE, sample(1, WaitReason::NONE));
    aggregator.add_blocking_sample(&release, waiting((1, 0)));
    // The one that waited is a thread of Go without work.
    aggregator.add_blocking_sample(&release, waiting((0, 3)));
    let unended = of_kind(ProfileKind::LOCK_RELEASE, sample(1, WaitReason::LOCK));
    let unnamed = Blocked {
        stacks: (1, 0),
        ..Blocked::default()
    };
    aggregator.add_blocking_sample(&unended, unnamed);
    let mut wait = waiting((0, 0));
    wait.thread = 0;
    let waits = of_kind(ProfileKind::LOCK, sample(1, WaitReason::LOCK));
    aggregator.add_blocking_sample(&waits, wait);

    let released = "main;load;[releases: Pool.jobs (Queue)];[blocks: worker] 1";
    let without = profile(&aggregator, &lock_release::KIND, false);
    assert_eq!(lines(&without), [released, "main;load;[waiting: lock] 1"]);
    assert_eq!(without.filtered_out.idle_ns, PERIOD_NS);
    let with = profile(&aggregator, &lock_release::KIND, true);
    let idle = format!("[idle];{released}");
    assert_eq!(
        lines(&with),
        [&*idle, released, "main;load;[waiting: lock] 1"]
    );

    let waits = profile(&aggregator, &lock::KIND, false);
    assert_eq!(lines(&waits), ["main;load;[lock: Pool.jobs (Queue)] 1"]);
}

/// Else a server that is stopped while it waits for work would have no samples, and nothing said why.
#[test]
fn a_thread_that_is_stopped_does_not_wait_for_work() {
    let aggregator = aggregator(&[sample(2, WaitReason::POLL), sample(2, WaitReason::STOPPED)]);
    let profile = profile(&aggregator, &wall::KIND, false);
    assert_eq!(
        lines(&profile),
        ["main;BaseEventLoop._run_once;EpollSelector.select;[stopped] 1"]
    );
}

#[test]
fn the_leaf_says_how_another_thread_is_kept_waiting() {
    let mut aggregator = aggregator(&[]);
    aggregator.add_thread(1, 2, "worker".to_owned());
    for is_stopped in [true, false] {
        let holding = Sample {
            kind: ProfileKind::GIL,
            ..sample(1, WaitReason::NONE)
        };
        let blocked = Blocked {
            thread: 2,
            is_stopped,
            ..Blocked::default()
        };
        aggregator.add_blocking_sample(&holding, blocked);
    }
    let profile = profile(&aggregator, &gil::KIND, false);
    assert_eq!(
        lines(&profile),
        [
            "main;load;[blocks: worker] 1",
            "main;load;[stops: worker] 1"
        ]
    );
}

#[test]
fn a_stack_that_is_not_known_is_not_idle() {
    // Stack 9 was lost; of stack 4 the code object at the leaf is not known.
    let mut aggregator = aggregator(&[sample(9, WaitReason::POLL), sample(4, WaitReason::POLL)]);
    aggregator.add_stack(python_stack(4, &[8, 2, 3]));
    let profile = profile(&aggregator, &wall::KIND, false);
    assert_eq!(profile.total(), 2);
    assert!(profile.filtered_out.is_empty());
}
