//! The walk of native frames, over hostile memory, with any rules.

use agent_common::{
    layout::RunStyle,
    limits::{MAX_NATIVE_FRAMES, MAX_NATIVE_VISITED},
    maps::TableState,
    native::{
        Arch, CodeLocation, CodeLookup, NativeOutcome, NativeWalk, PythonFrames, UnwindNative,
    },
    python::PythonRuns,
    record::NativeKind,
    scratch::Scratch,
    unwind::{CfaRule, Rule, RuleFlags, Saved},
};

use crate::{
    input::Input,
    memory::{Memory, START},
};

/// Number of rules: an address has the rule of its lowest bits.
const RULES: usize = 8;

struct Code {
    rules: [Rule; RULES],
    found: CodeLocation,
}

impl CodeLookup for Code {
    fn find(&mut self, address: u64, _stack_pointer: u64) -> Option<&CodeLocation> {
        let [lowest, ..] = address.to_le_bytes();
        self.found = CodeLocation {
            address,
            rule: self.rules[usize::from(lowest) % RULES],
            file_or_pid: 1,
            kind: if lowest & 8 == 0 {
                NativeKind::FILE
            } else {
                NativeKind::ANONYMOUS
            },
            table: TableState::NONE,
            reserved: 0,
        };
        (address != 0).then_some(&self.found)
    }
}

struct Steps<'a> {
    walk: &'a mut NativeWalk,
    memory: &'a Memory,
    scratch: &'a mut Scratch,
    python: PythonFrames<'a>,
    code: &'a mut Code,
    taken: u32,
}

impl UnwindNative for Steps<'_> {
    const FRAMES_PER_STEP: u32 = 1;

    fn begin(&mut self) -> NativeOutcome {
        let arch = Arch::CURRENT;
        self.walk.clear(1);
        self.walk.begin(START);
        self.walk.set_register(arch.stack_pointer, START);
        self.walk.set_register(arch.frame_pointer, START + 64);
        NativeOutcome::NEXT
    }

    fn walk_frames(&mut self) -> NativeOutcome {
        self.taken += 1;
        let frames = Self::FRAMES_PER_STEP;
        self.walk
            .walk_frames(self.memory, self.scratch, self.python, self.code, frames)
            .into()
    }
}

fn rule(input: &mut Input<'_>) -> Rule {
    let mut saved = || Saved(input.half().cast_signed());
    let [frame_pointer, base, return_address] = [saved(), saved(), saved()];
    Rule {
        cfa: CfaRule(input.byte() % 8),
        register: input.byte(),
        flags: RuleFlags(u16::from(input.byte()) % 8),
        offset: input.half().cast_signed().into(),
        addend: input.half().cast_signed(),
        frame_pointer,
        base,
        return_address,
    }
}

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let style = RunStyle(u16::from(input.byte()) % 4);
    let mut code = Code {
        rules: [Rule::UNKNOWN; RULES].map(|_| rule(&mut input)),
        found: CodeLocation::NOWHERE,
    };
    let mut runs = PythonRuns::new();
    let mut depth = 0_u32;
    for _ in 0..input.byte() {
        depth += u32::from(input.byte());
        runs.end(START + u64::from(input.half()), depth);
    }
    let memory = Memory::of_cells(input.rest());
    let mut walk = Box::new(NativeWalk::new());
    let mut scratch = Box::new(Scratch::new());
    let mut steps = Steps {
        walk: &mut walk,
        memory: &memory,
        scratch: &mut scratch,
        python: PythonFrames {
            runs: &runs,
            depth,
            style,
        },
        code: &mut code,
        taken: 0,
    };
    let _ = steps.unwind();
    assert!(steps.taken <= MAX_NATIVE_VISITED);
    walk.stack.push_pending_run();
    walk.stack.finish_record();
    // A run of Python frames may stand before each native frame, and after the last.
    assert!(walk.stack.head.frame_count as usize <= 2 * MAX_NATIVE_FRAMES + 128);
}
