use std::time::{Duration, SystemTime};

use agent_common::decoded::{Gap, NativeStack, Stack};
use agent_common::record::{
    Frame, FrameKind as WireKind, Header, MemoryType, NativeFrame, NativeKind, NativeUnwindStatus,
    ProfileKind, PythonUnwindStatus, RecordKind, Sample, WaitReason,
};
use proptest::prelude::*;

use crate::{
    aggregate::{Filter, ProfileTiming, fixtures::Aggregator},
    profile::{
        CPU, FrameKind, Function, LastFrame, LocationId, Losses, Periods, Process, ProcessIndex,
        Profile, UnsymbolizedLosses, UnsymbolizedReason, UnwindLosses, UnwindStats,
    },
    symbolize::{
        NativeFunction, SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame, unsymbolized,
    },
};

/// Names Python frames `f` and their symbol, native frames `n` and their address, kernel frames `k`
/// and their address; 0 is not symbolized.
#[derive(Default)]
struct FakeSymbolizer {
    /// Symbols and addresses in the order of the calls.
    calls: Vec<u64>,
}

impl SymbolizeFrames for FakeSymbolizer {
    fn python(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame> {
        self.calls.push(frame.symbol);
        (frame.symbol != 0).then(|| SymbolizedPythonFrame {
            function: Function {
                name: format!("f{}", frame.symbol),
                file: "app.py".to_owned(),
                first_line: None,
                kind: FrameKind::Python,
            },
            line: None,
        })
    }

    /// 21 is inlined into 20; 30 to 39 are parts of an evaluation loop.
    fn native(&mut self, _tgid: u32, frame: &NativeFrame) -> SymbolizedNativeFrame {
        self.calls.push(frame.address);
        let name = |address| match (frame.kind, address) {
            (NativeKind::KERNEL, _) => format!("k{address}"),
            (_, 30..40) => format!("_TAIL_CALL_{address}"),
            _ => format!("n{address}"),
        };
        let names = match frame.address {
            0 => return unsymbolized(frame, unnamed(frame)),
            21 => vec![name(21), name(20)],
            31 => vec![name(21), name(31)],
            address => vec![name(address)],
        };
        let function = |name: String| NativeFunction {
            name: name.into(),
            file: None,
            line: None,
        };
        SymbolizedNativeFrame {
            functions: Ok(names.into_iter().map(function).collect()),
            ..unsymbolized(frame, unnamed(frame))
        }
    }
}

fn unnamed(frame: &NativeFrame) -> UnsymbolizedReason {
    match frame.kind {
        NativeKind::KERNEL => UnsymbolizedReason::KptrRestricted,
        NativeKind::FILE => UnsymbolizedReason::NoSymbols,
        _ => UnsymbolizedReason::NoMap,
    }
}

/// Python frames by their symbols, leaf first; the prefix `h` marks a hidden frame.
fn python(frames: &str) -> Stack {
    let frame = |text: &str| {
        let symbol = text.trim_start_matches('h');
        Frame {
            symbol: symbol.parse().unwrap(),
            instruction_offset: 0,
            kind: if symbol == text {
                WireKind::PYTHON
            } else {
                WireKind::HIDDEN
            },
        }
    };
    Stack {
        hash: 1,
        frames: frames.split_whitespace().map(frame).collect(),
        gap: None,
    }
}

/// Frames of the kernel (`k`), of a file (`n`), of JIT code (`j`) by address, and evaluation loops
/// (`P`) by their number of Python frames, leaf first.
fn native(frames: &str) -> NativeStack {
    let frame = |text: &str| {
        let (kind, number) = text.split_at(1);
        let (kind, of) = match kind {
            "k" => (NativeKind::KERNEL, 0),
            "n" => (NativeKind::FILE, 3),
            "j" => (NativeKind::ANONYMOUS, 1),
            _ => (NativeKind::PYTHON, number.parse().unwrap()),
        };
        let address = match kind {
            NativeKind::PYTHON => 0,
            _ => number.parse().unwrap(),
        };
        NativeFrame {
            address,
            id_or_count: of,
            kind,
        }
    };
    NativeStack {
        hash: 2,
        frames: frames.split_whitespace().map(frame).collect(),
    }
}

/// Two samples of a process with Python.
fn profile(
    python: Option<Stack>,
    native: Option<NativeStack>,
    end: PythonUnwindStatus,
    native_end: NativeUnwindStatus,
) -> (Profile, FakeSymbolizer) {
    let mut aggregator = Aggregator::default();
    aggregator.add_process(Process {
        pid: 1,
        is_python: true,
        ..Process::default()
    });
    aggregator.add_sample(&Sample {
        header: Header {
            kind: RecordKind::SAMPLE,
            reserved: 0,
            bytes: 64,
        },
        time_ns: 0,
        stack: python.as_ref().map_or(0, |stack| stack.hash),
        native_stack: native.as_ref().map_or(0, |stack| stack.hash),
        tgid: 1,
        tid: 1,
        value: 20_000_000,
        count: 2,
        kind: ProfileKind::CPU,
        python_status: end,
        holds_gil: 0,
        collects_garbage: 0,
        native_status: native_end,
        wait: WaitReason::NONE,
        memory: MemoryType::NONE,
    });
    // Any other hash stands for a stack that is lost.
    if let Some(stack) = python.filter(|stack| stack.hash == 1) {
        aggregator.add_stack(stack);
    }
    if let Some(stack) = native.filter(|stack| stack.hash == 2) {
        aggregator.add_native_stack(stack);
    }
    let about = ProfileTiming {
        kind: &CPU,
        start: SystemTime::UNIX_EPOCH,
        duration: Duration::from_secs(1),
        periods: Periods::new(100, None),
    };
    let mut symbolizer = FakeSymbolizer::default();
    let profile = aggregator.profile(&about, &Filter::default(), &mut symbolizer);
    (profile, symbolizer)
}

/// The only stack as text, leaf first: `+` joins a function to the one that it is inlined into.
fn text(profile: &Profile) -> String {
    let name = |id: &LocationId| {
        let location = profile.location(*id);
        let lines = location.lines.iter();
        let names: Vec<_> = lines
            .map(|line| profile.function(line.function).name.as_str())
            .collect();
        match (names.is_empty(), location.code) {
            (true, Some(code)) => {
                let name = profile.executable(code.executable).name();
                format!("{name}+{:#x}", code.address)
            }
            _ => names.join("+"),
        }
    };
    assert_eq!(profile.stacks.len(), 1);
    let names: Vec<_> = profile.stacks[0].iter().map(name).collect();
    names.join(" ")
}

/// The interleaved stack of two complete walks.
fn joined(python_frames: &str, native_frames: &str) -> String {
    let (profile, _) = profile(
        Some(python(python_frames)),
        Some(native(native_frames)),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(profile.losses, Losses::default());
    text(&profile)
}

/// The interleaved stack and the losses of walks of which one failed.
fn failed(
    python_frames: Option<Stack>,
    native_frames: Option<NativeStack>,
    end: PythonUnwindStatus,
    native_end: NativeUnwindStatus,
) -> (String, Losses) {
    let (profile, _) = profile(python_frames, native_frames, end, native_end);
    (text(&profile), profile.losses)
}

#[test]
fn python_frames_replace_their_evaluation_loops() {
    assert_eq!(joined("1 2", "n5 P2 n6"), "n5 f1 f2 n6");
    assert_eq!(joined("1 2", "P2 n6"), "f1 f2 n6");
    assert_eq!(joined("1", "k7 k8 n5 P1 n6"), "k7 k8 n5 f1 n6");
}

#[test]
fn a_callback_is_above_its_native_caller() {
    // main → list.sort → f
    assert_eq!(joined("1 9", "P1 n5 n6 P1 n7"), "f1 n5 n6 f9 n7");
    // The shim that CPython puts under each loop is hidden.
    assert_eq!(joined("1 h2 9 8 h3", "P2 n5 P3 n7"), "f1 n5 f9 f8 n7");
    assert_eq!(joined("h1 9 h3", "P1 n5 P2 n7"), "n5 f9 n7");
}

#[test]
fn the_gap_of_a_truncated_stack_is_in_its_run() {
    let interleaved = |after, frames, native_frames: &str| {
        let mut stack = python("1 2 3 4");
        stack.gap = Some(Gap { after, frames });
        let (profile, _) = profile(
            Some(stack),
            Some(native(native_frames)),
            PythonUnwindStatus::COMPLETE,
            NativeUnwindStatus::COMPLETE,
        );
        let losses = Losses {
            truncated: 2,
            ..Losses::default()
        };
        assert_eq!(profile.losses, losses);
        text(&profile).replace("[frames left out]", "..")
    };
    assert_eq!(interleaved(2, 5, "P9 n6"), "f1 f2 .. f3 f4 n6");
    assert_eq!(interleaved(2, 5, "P3 n5 P6 n6"), "f1 f2 .. n5 .. f3 f4 n6");
    assert_eq!(
        interleaved(2, 5, "P1 n4 P7 n5 P1 n6"),
        "f1 n4 f2 .. f3 n5 f4 n6"
    );
    assert_eq!(
        interleaved(2, 5, "P2 n4 P5 n5 P2 n6"),
        "f1 f2 n4 .. n5 f3 f4 n6"
    );
}

#[test]
fn a_failed_native_walk_keeps_all_python_frames() {
    let (whole, losses) = failed(
        Some(python("1 2 3")),
        Some(native("n5 P1 n6")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::NO_TABLE,
    );
    assert_eq!(
        whole,
        "n5 f1 n6 [native frames unknown: the unwind table was not loaded yet] f2 f3"
    );
    let unwind = UnwindLosses {
        no_table: 2,
        ..UnwindLosses::default()
    };
    let only_unwind = Losses {
        unwind,
        ..Losses::default()
    };
    assert_eq!(losses, only_unwind);

    let (whole, losses) = failed(
        Some(python("1")),
        None,
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::NO_REGISTERS,
    );
    assert_eq!(whole, "[native frames unknown: no registers] f1");
    assert_eq!(losses.unwind.no_registers, 2);
    let (whole, losses) = failed(
        None,
        Some(native("n5")),
        PythonUnwindStatus::NO_PYTHON,
        NativeUnwindStatus(99),
    );
    assert_eq!(whole, "n5 [native frames unknown]");
    assert_eq!(losses.unwind.total(), 2);
}

#[test]
fn a_failed_python_walk_is_marked_where_its_frames_end() {
    let fault = PythonUnwindStatus::FRAME_FAULT;
    let marker = "[incomplete: a frame was not in memory]";
    let interleaved = |frames: Option<&str>, native_frames| {
        let (whole, losses) = failed(
            frames.map(python),
            Some(native(native_frames)),
            fault,
            NativeUnwindStatus::COMPLETE,
        );
        let only_incomplete = Losses {
            incomplete: 2,
            ..Losses::default()
        };
        assert_eq!(losses, only_incomplete);
        whole.replace(marker, "!")
    };
    assert_eq!(
        interleaved(Some("1 2"), "P1 n5 P9 n6 P1 n7"),
        "f1 n5 f2 ! n6 n7"
    );
    assert_eq!(interleaved(None, "n5 P0 n6 P3"), "n5 ! n6");
    assert_eq!(interleaved(None, "n5 n6"), "n5 n6 !");

    // Both failed.
    let (whole, _) = failed(
        Some(python("1 2")),
        Some(native("P1 n5")),
        fault,
        NativeUnwindStatus::FAULT,
    );
    assert_eq!(
        whole,
        format!("f1 n5 [native frames unknown: the stack was not in memory] f2 {marker}")
    );
}

#[test]
fn lost_stacks_are_marked() {
    let lost = Stack {
        hash: 7,
        ..python("1")
    };
    let (whole, losses) = failed(
        Some(lost),
        Some(native("n5 P2 n6")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(whole, "n5 [stack lost] n6");
    assert_eq!(losses.incomplete, 2);

    let lost = NativeStack {
        hash: 7,
        ..native("n5")
    };
    for end in [NativeUnwindStatus::COMPLETE, NativeUnwindStatus::FAULT] {
        let (whole, losses) = failed(
            Some(python("1 2")),
            Some(lost.clone()),
            PythonUnwindStatus::COMPLETE,
            end,
        );
        assert_eq!(whole, "[native stack lost] f1 f2");
        let only_lost = Losses {
            lost_native_stacks: 2,
            ..Losses::default()
        };
        assert_eq!(losses, only_lost);
    }
}

#[test]
fn python_frames_without_an_evaluation_loop_are_at_the_root() {
    let (whole, losses) = failed(
        Some(python("1 2 3")),
        Some(native("n5 P1 n6")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(whole, "n5 f1 n6 f2 f3");
    assert_eq!(losses.unmatched, 2);
    // Hidden frames need no evaluation loop.
    assert_eq!(joined("1 h2", "n5 P1 n6"), "n5 f1 n6");
}

#[test]
fn threads_without_python_have_native_frames_only() {
    let alone = |native_frames, end, native_end| {
        let (whole, losses) = failed(None, native_frames, end, native_end);
        (whole, losses.not_python)
    };
    assert_eq!(
        alone(
            Some(native("k5 n6 n7")),
            PythonUnwindStatus::NO_PYTHON,
            NativeUnwindStatus::COMPLETE
        ),
        ("k5 n6 n7".to_owned(), 0)
    );
    assert_eq!(
        alone(
            Some(native("k5 k6")),
            PythonUnwindStatus::NO_THREAD_STATE,
            NativeUnwindStatus::KERNEL_ONLY
        ),
        ("k5 k6".to_owned(), 0)
    );
    assert_eq!(
        alone(
            None,
            PythonUnwindStatus::NO_FRAME,
            NativeUnwindStatus::NOT_WALKED
        ),
        ("[no Python]".to_owned(), 2)
    );
    assert_eq!(
        alone(
            None,
            PythonUnwindStatus::NO_PYTHON,
            NativeUnwindStatus::NO_REGISTERS
        ),
        (
            "[native frames unknown: no registers] [no Python]".to_owned(),
            2
        )
    );
}

#[test]
fn parts_of_an_evaluation_loop_are_hidden() {
    assert_eq!(joined("1 2", "n5 n30 P1 n6 n31 P1 n7"), "n5 f1 n6 f2 n7");
    assert_eq!(joined("1 2", "n5 j9 n30 P2 n7"), "n5 f1 f2 n7");
    // Where no evaluation loop follows they are frames of their own.
    assert_eq!(
        joined("1", "n30 n5 j9 n6 P1 j9 n7"),
        "_TAIL_CALL_30 n5 n9 n6 f1 n9 n7"
    );
    let (profile, _) = profile(
        Some(python("1")),
        Some(native("n5 n30 P1 n7")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    let unseen = |function: &Function| function.name.starts_with("_TAIL_CALL_");
    assert!(!profile.functions.iter().any(unseen));
}

#[test]
fn inlined_functions_share_a_location() {
    let (profile, _) = profile(
        Some(python("1")),
        Some(native("n21 P1 n20")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(text(&profile), "n21+n20 f1 n20");
    assert_eq!(profile.executables.len(), 1);
    let inlined = &profile.locations[0];
    assert_eq!(
        inlined.lines[1].function,
        profile.locations[2].lines[0].function
    );
}

#[test]
fn unknown_code_objects_are_counted() {
    let (whole, losses) = failed(
        Some(python("0 1 0")),
        Some(native("P2 n5 P1")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    let marker = "[unknown code object]";
    assert_eq!(whole, format!("{marker} f1 n5 {marker}"));
    assert_eq!(losses.unsymbolized_python_frames, 4);
}

#[test]
fn an_unsymbolized_frame_of_a_file_has_its_address() {
    let (profile, _) = profile(
        None,
        Some(native("k0 n5 n0 j0 n0 j0 j0")),
        PythonUnwindStatus::NO_PYTHON,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(
        text(&profile),
        "[kernel]+0x0 n5 [file 3]+0x0 [jit] [file 3]+0x0 [jit]"
    );
    let unnamed = UnsymbolizedLosses {
        no_symbols: 4,
        no_map: 6,
        kptr_restricted: 2,
        ..UnsymbolizedLosses::default()
    };
    assert_eq!(profile.losses.unsymbolized_native_frames, unnamed);
    assert_eq!(unnamed.total(), 12);
    let kinds: Vec<_> = profile.functions.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [FrameKind::Native, FrameKind::Native]);
}

#[test]
fn last_frames_of_native_stacks_are_counted() {
    let unwinding = |native_frames: Option<&str>, native_end| {
        let native = native_frames.map(native);
        let (profile, _) = profile(
            Some(python("1")),
            native,
            PythonUnwindStatus::COMPLETE,
            native_end,
        );
        let reached = |reached| match reached {
            LastFrame::NoFrame => "nothing".to_owned(),
            LastFrame::EvaluationLoop => "loop".to_owned(),
            LastFrame::Executable(id) => profile.executable(id).name().into_owned(),
        };
        let walks = profile.unwind_stats.iter().map(|unwinding| {
            let UnwindStats {
                process,
                walked,
                complete,
                incomplete,
            } = unwinding;
            assert_eq!(*process, ProcessIndex(0));
            let incomplete: Vec<_> = incomplete
                .iter()
                .map(|(at, count)| (reached(*at), *count))
                .collect();
            (*walked, *complete, incomplete)
        });
        walks.collect::<Vec<_>>()
    };
    let broken = |at: &str| vec![(2, 0, vec![(at.to_owned(), 2)])];
    assert_eq!(
        unwinding(Some("n5 P1 n6"), NativeUnwindStatus::COMPLETE),
        [(2, 2, vec![])]
    );
    // The walk was complete, even if its stack is lost.
    assert_eq!(
        unwinding(None, NativeUnwindStatus::COMPLETE),
        [(2, 2, vec![])]
    );
    assert_eq!(
        unwinding(None, NativeUnwindStatus::COMPLETE),
        [(2, 2, vec![])]
    );
    assert_eq!(
        unwinding(Some("k1 n5 P1 n6"), NativeUnwindStatus::NO_RULE),
        broken("[file 3]")
    );
    assert_eq!(
        unwinding(Some("n5 j9"), NativeUnwindStatus::CFA_NOT_ABOVE),
        broken("[jit]")
    );
    assert_eq!(
        unwinding(Some("n5 P1"), NativeUnwindStatus::FAULT),
        broken("loop")
    );
    assert_eq!(
        unwinding(Some("k1"), NativeUnwindStatus::NO_REGISTERS),
        broken("nothing")
    );
    assert_eq!(
        unwinding(None, NativeUnwindStatus::UNMAPPED),
        broken("nothing")
    );
    assert_eq!(unwinding(None, NativeUnwindStatus::NOT_WALKED), []);
    assert_eq!(unwinding(Some("k1"), NativeUnwindStatus::KERNEL_ONLY), []);
}

#[test]
fn equal_frames_are_symbolized_once() {
    let (_, symbolizer) = profile(
        Some(python("1 0 1 0")),
        Some(native("k5 n5 n30 n5 n30 P4 k5 n6")),
        PythonUnwindStatus::COMPLETE,
        NativeUnwindStatus::COMPLETE,
    );
    assert_eq!(symbolizer.calls, [5, 5, 30, 1, 0, 6]);
}

proptest! {
    /// Whatever the BPF programs send: each Python frame and each native frame is in the stack once,
    /// in order.
    #[test]
    fn no_frame_is_lost(
        hidden in prop::collection::vec(any::<bool>(), 0..12),
        gap in prop::option::of((0_usize..14, 1_u32..6)),
        frames in prop::collection::vec((0_u32..5, 0_u32..5), 0..20),
        end in 0_u16..13,
        native_end in 0_u16..11,
    ) {
        let count = hidden.len();
        let symbols = (1..).zip(hidden).map(|(symbol, hidden)| Frame {
            symbol,
            instruction_offset: 0,
            kind: if hidden { WireKind::HIDDEN } else { WireKind::PYTHON },
        });
        let stack = Stack {
            hash: 1,
            frames: symbols.collect(),
            gap: gap.map(|(after, frames)| Gap { after: after.min(count), frames }),
        };
        let shown: Vec<_> = stack
            .frames
            .iter()
            .filter(|frame| frame.kind != WireKind::HIDDEN)
            .map(|frame| format!("f{}", frame.symbol))
            .collect();
        let frames = (1..).zip(frames).map(|(address, (kind, of))| NativeFrame {
            address: address + 100,
            id_or_count: of,
            // Without anonymous ones, which may be parts of loops.
            kind: NativeKind(if kind == 3 { 2 } else { kind }),
        });
        let native = NativeStack { hash: 2, frames: frames.collect() };
        let own: Vec<_> = native
            .frames
            .iter()
            .filter(|frame| frame.kind != NativeKind::PYTHON)
            .map(|frame| frame.address)
            .collect();

        let (profile, _) = profile(
            Some(stack),
            Some(native),
            PythonUnwindStatus(end),
            NativeUnwindStatus(native_end),
        );
        prop_assert_eq!(profile.total(), 2);
        let locations = profile.stacks[0].iter().map(|id| profile.location(*id));
        let mut addresses = Vec::new();
        let mut names = Vec::new();
        for location in locations {
            match location.code {
                Some(code) => addresses.push(code.address),
                None => names.push(profile.function(location.lines[0].function).name.clone()),
            }
        }
        prop_assert_eq!(addresses, own);
        names.retain(|name| name.starts_with('f'));
        prop_assert_eq!(names, shown);
    }
}
