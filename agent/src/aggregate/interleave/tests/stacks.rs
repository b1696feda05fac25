//! Stacks written as text, and what they are interleaved to.

use std::time::{Duration, SystemTime};

use agent_common::decoded::{NativeStack, Stack};
use agent_common::record::{
    Frame, FrameKind as WireKind, Header, MemoryType, NativeFrame, NativeKind, NativeUnwindStatus,
    ProfileKind, PythonUnwindStatus, RecordKind, Sample, WaitReason,
};

use crate::{
    aggregate::{Filter, ProfileTiming, fixtures::Aggregator},
    profile::{
        CPU, FrameKind, Function, LocationId, Losses, Periods, Process, Profile, UnsymbolizedReason,
    },
    symbolize::{
        NativeFunction, SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame, unsymbolized,
    },
};

/// Names Python frames `f` and their symbol, native frames `n` and their address, kernel frames `k`
/// and their address; 0 is not symbolized.
#[derive(Default)]
pub(super) struct FakeSymbolizer {
    /// Symbols and addresses in the order of the calls.
    pub(super) calls: Vec<u64>,
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
pub(super) fn python(frames: &str) -> Stack {
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
pub(super) fn native(frames: &str) -> NativeStack {
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
pub(super) fn profile(
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
            bytes: 72,
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
        task: 0,
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
pub(super) fn text(profile: &Profile) -> String {
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
pub(super) fn joined(python_frames: &str, native_frames: &str) -> String {
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
pub(super) fn failed(
    python_frames: Option<Stack>,
    native_frames: Option<NativeStack>,
    end: PythonUnwindStatus,
    native_end: NativeUnwindStatus,
) -> (String, Losses) {
    let (profile, _) = profile(python_frames, native_frames, end, native_end);
    (text(&profile), profile.losses)
}
