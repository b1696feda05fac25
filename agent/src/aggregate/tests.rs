use std::time::{Duration, SystemTime};

use agent_common::decoded::{Gap, NativeStack, Stack};
use agent_common::record::{
    Frame, FrameKind as WireKind, Header, MemoryType, NativeFrame, NativeKind, NativeUnwindStatus,
    ProfileKind, PythonUnwindStatus, RecordKind, Sample, WaitReason,
};

use super::{Filter, ProfileTiming, ThreadFilter, fixtures::Aggregator};
use crate::{
    profile::{
        CPU, FilteredOut, FrameKind, Function, Losses, Periods, Process, Profile,
        UnsymbolizedReason,
    },
    symbolize::{SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame, unsymbolized},
};

fn sample(stack: u64, tid: u32, count: u32, end: PythonUnwindStatus) -> Sample {
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
        tid,
        value: u64::from(count) * 10_000_000,
        count,
        kind: ProfileKind::CPU,
        python_status: end,
        holds_gil: 0,
        collects_garbage: 0,
        native_status: NativeUnwindStatus::NOT_WALKED,
        wait: WaitReason::NONE,
        memory: MemoryType::NONE,
        task: 0,
    }
}

fn stack(hash: u64, symbols: &[u64], gap: Option<usize>) -> Stack {
    let frame = |symbol: &u64| Frame {
        symbol: *symbol,
        instruction_offset: 0,
        kind: WireKind::PYTHON,
    };
    Stack {
        hash,
        frames: symbols.iter().map(frame).collect(),
        gap: gap.map(|after| Gap { after, frames: 1 }),
    }
}

struct FakeSymbolizer;

impl SymbolizeFrames for FakeSymbolizer {
    /// Symbol 0 is unknown, 12 has the location of 11.
    fn python(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame> {
        let symbol = if frame.symbol == 12 { 11 } else { frame.symbol };
        (symbol != 0).then(|| SymbolizedPythonFrame {
            function: Function {
                name: format!("f{symbol}"),
                file: "app.py".to_owned(),
                first_line: None,
                kind: FrameKind::Python,
            },
            line: None,
        })
    }

    fn native(&mut self, _tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame {
        unsymbolized(frame, UnsymbolizedReason::NoSymbols)
    }
}

fn profile(aggregator: &Aggregator) -> Profile {
    filtered(aggregator, &Filter::default())
}

fn filtered(aggregator: &Aggregator, filter: &Filter) -> Profile {
    let about = ProfileTiming {
        kind: &CPU,
        start: SystemTime::UNIX_EPOCH,
        duration: Duration::from_secs(1),
        periods: Periods::new(100, None),
    };
    aggregator.profile(&about, filter, &mut FakeSymbolizer)
}

fn process(pid: u32, name: &str) -> Process {
    Process {
        pid,
        name: name.to_owned(),
        ..Process::default()
    }
}

/// Samples without frames: `(tgid, tid, holds_gil, count)`.
fn sampled(samples: &[(u32, u32, bool, u32)]) -> Aggregator {
    let mut aggregator = Aggregator::default();
    for &(tgid, tid, holds_gil, count) in samples {
        aggregator.add_sample(&Sample {
            tgid,
            holds_gil: holds_gil.into(),
            ..sample(0, tid, count, PythonUnwindStatus::NO_THREAD_STATE)
        });
    }
    aggregator
}

/// Processes and threads with their counts.
fn threads(profile: &Profile) -> Vec<String> {
    profile
        .samples
        .iter()
        .map(|sample| {
            let thread = &profile.threads[sample.thread.0 as usize];
            let process = &profile.processes[profile.process_of(sample).0 as usize];
            let (pid, process) = (process.pid, &process.name);
            let (tid, thread) = (thread.tid, &thread.name);
            format!("{process} {pid}, {thread} {tid}: {}", sample.count)
        })
        .collect()
}

/// Stacks as text, leaf first, with threads and counts.
fn lines(profile: &Profile) -> Vec<String> {
    let name = |id: &_| {
        let line = profile.location(*id).lines[0];
        profile.function(line.function).name.as_str()
    };
    profile
        .samples
        .iter()
        .map(|sample| {
            let stack = &profile.stacks[sample.stack.0 as usize];
            let names: Vec<_> = stack.iter().map(name).collect();
            let thread = &profile.threads[sample.thread.0 as usize];
            let (tid, name) = (thread.tid, &thread.name);
            format!("{} {tid} {name} {}", names.join("<"), sample.count)
        })
        .collect()
}

#[test]
fn samples_are_counted_by_stack_and_thread() {
    let mut aggregator = Aggregator::default();
    aggregator.add_stack(stack(1, &[5, 6], None));
    aggregator.add_thread(1, 8, "worker".to_owned());
    for (tid, count) in [(7, 1), (8, 1), (7, 3)] {
        aggregator.add_sample(&sample(1, tid, count, PythonUnwindStatus::COMPLETE));
    }
    let profile = profile(&aggregator);
    assert_eq!(lines(&profile), ["f5<f6 7  4", "f5<f6 8 worker 1"]);
    assert_eq!(profile.total(), aggregator.samples());
}

#[test]
fn values_are_those_of_the_samples_whatever_the_period() {
    let mut aggregator = Aggregator::default();
    let sample = sample(0, 7, 1, PythonUnwindStatus::NO_THREAD_STATE);
    for value in [10_000_000, 10_000_000, 50_000_000] {
        aggregator.add_sample(&Sample { value, ..sample });
    }
    let profile = profile(&aggregator);
    assert_eq!((profile.total(), profile.total_value()), (3, 70_000_000));
    assert_eq!(profile.period, 10_000_000);
    assert_eq!(profile.periods().collect::<Vec<_>>(), [7]);
}

#[test]
fn a_sample_of_an_unknown_kind_is_malformed() {
    let mut aggregator = Aggregator::default();
    aggregator.add_sample(&Sample {
        kind: ProfileKind(0),
        ..sample(0, 7, 1, PythonUnwindStatus::NO_THREAD_STATE)
    });
    let profile = profile(&aggregator);
    assert_eq!(profile.samples, []);
    assert_eq!(profile.losses.malformed_records, 1);
}

#[test]
fn stacks_with_equal_locations_are_merged() {
    let mut aggregator = Aggregator::default();
    for (hash, symbol) in [(1, 11), (2, 12)] {
        aggregator.add_stack(stack(hash, &[symbol], None));
        aggregator.add_sample(&sample(hash, 7, 1, PythonUnwindStatus::COMPLETE));
    }
    assert_eq!(lines(&profile(&aggregator)), ["f11 7  2"]);
}

#[test]
fn what_is_missing_is_marked_and_counted() {
    let mut aggregator = Aggregator::default();
    aggregator.add_stack(stack(1, &[5, 6, 7], Some(2)));
    aggregator.add_stack(stack(2, &[5, 0], None));
    aggregator.add_sample(&sample(1, 1, 1, PythonUnwindStatus::COMPLETE));
    aggregator.add_sample(&sample(2, 2, 2, PythonUnwindStatus::FRAME_FAULT));
    aggregator.add_sample(&sample(3, 3, 1, PythonUnwindStatus::COMPLETE));
    aggregator.add_sample(&sample(0, 4, 1, PythonUnwindStatus::NO_THREAD_STATE));
    let profile = profile(&aggregator);
    assert_eq!(
        lines(&profile),
        [
            "f5<f6<[frames left out]<f7 1  1",
            "f5<[unknown code object]<[incomplete: a frame was not in memory] 2  2",
            "[stack lost] 3  1",
            "[no Python] 4  1",
        ]
    );
    let losses = profile.losses;
    assert_eq!(losses.truncated, 1);
    assert_eq!(losses.unsymbolized_python_frames, 2);
    assert_eq!(losses.incomplete, 3);
    assert_eq!(losses.not_python, 1);
}

#[test]
fn a_thread_is_identified_with_its_process() {
    let mut aggregator = sampled(&[(2, 7, false, 1), (1, 7, false, 2), (2, 7, true, 4)]);
    aggregator.add_process(process(2, "second"));
    aggregator.add_process(process(1, "first"));
    aggregator.add_thread(1, 7, "worker".to_owned());
    assert_eq!(
        threads(&profile(&aggregator)),
        ["second 2,  7: 5", "first 1, worker 7: 2"]
    );
}

#[test]
fn the_last_process_with_an_id_holds() {
    let mut aggregator = sampled(&[(5, 5, false, 1), (3, 3, false, 1), (1, 1, false, 1)]);
    aggregator.add_process(process(5, "sh"));
    aggregator.add_process(process(4, "idle"));
    aggregator.add_process(process(3, "env"));
    aggregator.add_process(Process {
        parent: Some(1),
        is_python: true,
        ..process(5, "python3.12")
    });
    let profile = profile(&aggregator);
    assert_eq!(
        threads(&profile),
        ["python3.12 5,  5: 1", "env 3,  3: 1", "1 1,  1: 1"]
    );
    assert_eq!(profile.processes[0].parent, Some(1));
    assert!(profile.processes[0].is_python);
    assert!(!profile.processes[2].is_python);
}

#[test]
fn without_samples_all_processes_are_listed() {
    let mut aggregator = Aggregator::default();
    assert!(profile(&aggregator).processes.is_empty());
    aggregator.add_process(process(9, "first"));
    aggregator.add_process(process(8, "second"));
    assert_eq!(
        profile(&aggregator).processes,
        [process(9, "first"), process(8, "second")]
    );
}

#[test]
fn equal_stacks_of_processes_are_one() {
    let mut aggregator = Aggregator::default();
    aggregator.add_stack(stack(1, &[5, 6], None));
    for tgid in [1, 2] {
        aggregator.add_sample(&Sample {
            tgid,
            ..sample(1, tgid, 1, PythonUnwindStatus::COMPLETE)
        });
    }
    let profile = profile(&aggregator);
    assert_eq!((profile.stacks.len(), profile.processes.len()), (1, 2));
    assert_eq!(lines(&profile), ["f5<f6 1  1", "f5<f6 2  1"]);
}

#[test]
fn a_filter_includes_threads_that_held_the_gil() {
    let mut aggregator = sampled(&[(1, 7, false, 1), (1, 7, true, 2), (1, 8, false, 4)]);
    aggregator.add_stack(stack(1, &[5], Some(0)));
    aggregator.add_sample(&sample(1, 8, 8, PythonUnwindStatus::FRAME_FAULT));
    let filter = Filter {
        gil_only: true,
        ..Filter::default()
    };
    let profile = filtered(&aggregator, &filter);
    assert_eq!(threads(&profile), ["1 1,  7: 2"]);
    let filtered_out = FilteredOut {
        without_gil: 13,
        ..FilteredOut::default()
    };
    assert_eq!(profile.filtered_out, filtered_out);
    // Samples that were filtered out are not counted as losses.
    let losses = Losses {
        not_python: 2,
        ..Losses::default()
    };
    assert_eq!(profile.losses, losses);
    assert_eq!(
        profile.total() + filtered_out.without_gil,
        aggregator.samples()
    );
}

#[test]
fn a_filter_matches_threads_by_id_or_last_name() {
    let mut aggregator = sampled(&[(1, 7, true, 1), (2, 7, false, 2), (2, 8, true, 4)]);
    aggregator.add_thread(1, 7, "worker".to_owned());
    aggregator.add_thread(2, 8, "worker".to_owned());
    aggregator.add_thread(1, 7, "idle".to_owned());
    let of = |thread, gil_only| {
        let filter = Filter {
            gil_only,
            thread: Some(thread),
            ..Filter::default()
        };
        let profile = filtered(&aggregator, &filter);
        (threads(&profile), profile.filtered_out)
    };
    let filtered_out = |other_threads, without_gil| FilteredOut {
        other_threads,
        without_gil,
        ..FilteredOut::default()
    };
    let by_id = || "7".parse().unwrap();
    let by_name = "worker".parse().unwrap();
    assert_eq!(
        of(by_id(), false),
        (
            vec!["1 1, idle 7: 1".to_owned(), "2 2,  7: 2".to_owned()],
            filtered_out(4, 0)
        )
    );
    assert_eq!(
        of(by_id(), true),
        (vec!["1 1, idle 7: 1".to_owned()], filtered_out(4, 2))
    );
    assert_eq!(
        of(by_name, false),
        (vec!["2 2, worker 8: 4".to_owned()], filtered_out(3, 0))
    );
}

#[test]
fn a_filter_that_matches_no_thread_lists_the_sampled_ones() {
    let check = |aggregator: &Aggregator, thread: &str| {
        let filter = Filter {
            gil_only: true,
            thread: Some(thread.parse().unwrap()),
            ..Filter::default()
        };
        aggregator.check_filter(&filter, &CPU)
    };
    assert_eq!(check(&Aggregator::default(), "worker"), Ok(()));

    let mut aggregator = sampled(&[(1, 1, false, 1), (1, 7, false, 9), (2, 8, false, 1)]);
    aggregator.add_thread(1, 1, "MainThread".to_owned());
    aggregator.add_thread(1, 7, "work".to_owned());
    assert_eq!(check(&aggregator, "work"), Ok(()));
    assert_eq!(check(&aggregator, "8"), Ok(()));
    let error = check(&aggregator, "worker").unwrap_err();
    assert_eq!(error.wanted, ThreadFilter::Name("worker".to_owned()));
    assert_eq!(
        error.to_string(),
        "no thread named `worker` used any CPU; \
         choose one of those that did: work (7), MainThread (1), 8"
    );
    let error = check(&aggregator, "2").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no thread with the id 2 used")
    );

    let many: Vec<_> = (1..=25).map(|tid| (1, tid, false, 1)).collect();
    let error = check(&sampled(&many), "worker").unwrap_err();
    assert_eq!(error.seen.len(), 25);
    assert!(
        error.to_string().ends_with(", 19, 20 and 5 more"),
        "{error}"
    );
}

/// Records the frames that it is prepared for.
#[derive(Default)]
struct Preparing(Vec<Vec<(u32, u64)>>);

impl SymbolizeFrames for Preparing {
    fn prepare(&mut self, frames: &[(u32, NativeFrame)]) {
        let frames = frames.iter().map(|(tgid, frame)| (*tgid, frame.address));
        let mut frames: Vec<_> = frames.collect();
        frames.sort_unstable();
        self.0.push(frames);
    }

    fn python(&mut self, _frame: &Frame) -> Option<SymbolizedPythonFrame> {
        None
    }

    fn native(&mut self, _tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame {
        assert_eq!(self.0.len(), 1);
        unsymbolized(frame, UnsymbolizedReason::NoSymbols)
    }
}

#[test]
fn the_symbolizer_is_prepared_once_for_all_included_frames() {
    let mut aggregator = Aggregator::default();
    let native = |hash, frames: &[(NativeKind, u64)]| NativeStack {
        hash,
        frames: frames
            .iter()
            .map(|(kind, address)| NativeFrame {
                address: *address,
                id_or_count: 1,
                kind: *kind,
            })
            .collect(),
    };
    let (file, python) = (NativeKind::FILE, NativeKind::PYTHON);
    aggregator.add_native_stack(native(5, &[(file, 10), (python, 11), (file, 12)]));
    aggregator.add_native_stack(native(6, &[(file, 10), (NativeKind::KERNEL, 13)]));
    aggregator.add_native_stack(native(7, &[(file, 14)]));
    for (tgid, tid, native_stack) in [(3, 3, 5), (2, 2, 5), (3, 3, 6), (3, 4, 7)] {
        aggregator.add_sample(&Sample {
            tgid,
            native_stack,
            native_status: NativeUnwindStatus::COMPLETE,
            ..sample(0, tid, 1, PythonUnwindStatus::NO_PYTHON)
        });
    }
    let about = ProfileTiming {
        kind: &CPU,
        start: SystemTime::UNIX_EPOCH,
        duration: Duration::from_secs(1),
        periods: Periods::new(100, None),
    };
    let mut symbolizer = Preparing::default();
    aggregator.profile(&about, &Filter::default(), &mut symbolizer);
    assert_eq!(symbolizer.0, [[(2, 10), (2, 12), (3, 13), (3, 14)]]);

    let filter = Filter {
        thread: Some(ThreadFilter::Tid(4)),
        ..Filter::default()
    };
    let mut symbolizer = Preparing::default();
    aggregator.profile(&about, &filter, &mut symbolizer);
    assert_eq!(symbolizer.0, [[(3, 14)]]);
}

#[test]
fn stacks_that_were_finished_are_one_with_those_that_were_whole() {
    let mut aggregator = Aggregator::default();
    let frames = |addresses: &[u64]| -> Vec<_> {
        let frame = |address: &u64| NativeFrame {
            address: *address,
            id_or_count: 1,
            kind: NativeKind::FILE,
        };
        addresses.iter().map(frame).collect()
    };
    let (cut, complete) = (NativeUnwindStatus::NO_TABLE, NativeUnwindStatus::COMPLETE);
    for (hash, addresses, end) in [
        (5, &[10, 11, 12][..], complete),
        (6, &[10, 11], cut),
        (7, &[10], NativeUnwindStatus::UNMAPPED),
        (8, &[10, 11], cut),
    ] {
        aggregator.add_native_stack(NativeStack {
            hash,
            frames: frames(addresses),
        });
        aggregator.add_sample(&Sample {
            native_stack: hash,
            native_status: end,
            ..sample(0, 1, 1, PythonUnwindStatus::NO_PYTHON)
        });
    }
    aggregator.finish_native_stack(6, true, &frames(&[11, 12]), complete);
    aggregator.finish_native_stack(7, false, &frames(&[11, 12]), complete);
    // One that is not known, as after an eviction, does no harm.
    aggregator.finish_native_stack(9, true, &frames(&[11]), complete);
    let profile = profile(&aggregator);
    let mut counts: Vec<_> = profile.samples.iter().map(|it| it.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3], "{:?}", profile.samples);
    assert_eq!(profile.unwind_stats[0].complete, 3);
    assert_eq!(profile.unwind_stats[0].walked, 4);
}
