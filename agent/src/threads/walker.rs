//! The stack of a thread that does not run, read from outside: the walks of the BPF programs, in their
//! order and within their limits, on the memory of a process or of its core dump.

use agent_common::{
    hash::Hash,
    layout::{GilStyle, Layout, RunStyle, RunningTaskLayout},
    limits::MAX_KERNEL_FRAMES,
    maps::ThreadState,
    memory::{UserAddr, UserMemory},
    native::{CodeLookup, NativeOutcome, NativeWalk, PythonFrames, Registers, UnwindNative},
    python::{
        CodeObjectRecord, PythonOutcome, PythonWalk, SymbolLookup as _, ThreadWalk, UnwindPython,
        WalkPosition, collects_garbage, gil_holder, read_running_task, read_task,
    },
    record::{
        Frame, FrameKind, MemoryType, NativeUnwindStatus, ProfileKind, PythonUnwindStatus, Sample,
        TaskName, WaitReason,
    },
    scratch::Scratch,
};

use zerocopy::IntoBytes as _;

use super::{
    batch::Batch,
    symbols::{Describer, KnownCode},
};
use crate::python::remote::tasks::TaskStack;

/// The interpreter of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interpreter {
    /// Address of the pointer to the newest interpreter state.
    pub(super) head: UserAddr,
    /// Address of the pointer to the state that holds the GIL, null where it is not read.
    pub(super) gil_holder: UserAddr,
    /// Its layout.
    pub(super) layout: Layout,
    /// Where it has the tasks that its threads run.
    pub(super) tasks: RunningTaskLayout,
}

/// The records of a stack, sent when it is proved.
#[derive(Debug, Default)]
pub(super) struct StackRecords {
    python: Vec<u8>,
    native: Vec<u8>,
    task: Vec<u8>,
}

impl StackRecords {
    /// Has the name of a task, which has this hash, 0 for none.
    fn set_task(&mut self, hash: u64, name: &TaskName) {
        if hash != 0 {
            name.as_bytes().clone_into(&mut self.task);
        }
    }

    /// Adds the records to a batch unless they were sent before.
    pub(super) fn send(&self, walked: &Walked, batch: &mut Batch) {
        for (hash, record) in [
            (walked.stack, &self.python),
            (walked.native_stack, &self.native),
            (walked.task, &self.task),
        ] {
            if hash != 0 && batch.is_new(hash) {
                batch.add_reference(record);
            }
        }
    }
}

/// A stack that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walked {
    /// Hash of the Python stack, 0 for none.
    pub(super) stack: u64,
    /// How its walk ended.
    pub(super) python_status: PythonUnwindStatus,
    /// Hash of the native stack, 0 for none.
    pub(super) native_stack: u64,
    /// How its walk ended.
    pub(super) native_status: NativeUnwindStatus,
    /// Whether the thread holds the GIL.
    pub(super) holds_gil: bool,
    /// Whether it also collects garbage.
    pub(super) collects_garbage: bool,
    /// Hash of the name of the task that it runs, 0 for none.
    pub(super) task: u64,
    /// Symbol of the Python frame nearest the root.
    pub(super) root_symbol: u64,
    /// Address of that frame.
    pub(super) root: UserAddr,
    /// Whether nothing can be missing that becomes known later.
    pub(super) is_whole: bool,
}

impl Walked {
    /// Notes what is missing.
    fn check(&mut self) {
        let is_python = self.python_status == PythonUnwindStatus::COMPLETE
            || self.python_status == PythonUnwindStatus::NO_FRAME;
        self.is_whole &= is_python && self.native_status.is_complete();
    }
}

impl Walked {
    /// The sample of a thread with this stack, which waited for this; of the kind *wall*, without times.
    pub(super) fn sample(&self, process: u32, thread: u32, wait: WaitReason) -> Sample {
        Sample {
            header: Sample::HEADER,
            time_ns: 0,
            stack: self.stack,
            native_stack: self.native_stack,
            tgid: process,
            tid: thread,
            value: 0,
            count: 1,
            kind: ProfileKind::WALL,
            python_status: self.python_status,
            holds_gil: self.holds_gil.into(),
            collects_garbage: self.collects_garbage.into(),
            native_status: self.native_status,
            wait,
            memory: MemoryType::NONE,
            task: self.task,
        }
    }

    /// A stack that could not be proved to be one.
    pub(super) const UNPROVED: Self = Self {
        stack: 0,
        python_status: PythonUnwindStatus::TORN,
        native_stack: 0,
        native_status: NativeUnwindStatus::NOT_WALKED,
        holds_gil: false,
        collects_garbage: false,
        task: 0,
        root_symbol: 0,
        root: UserAddr(0),
        is_whole: true,
    };
}

/// Reads stacks, one after another.
pub(super) struct Walker {
    scratch: Box<Scratch>,
    python: Box<PythonWalk>,
    native: Box<NativeWalk>,
    record: Box<CodeObjectRecord>,
    /// Start value of the hashes.
    seed: u64,
    /// Whether native and kernel frames are read.
    with_native: bool,
}

/// What a stack is read from.
pub(super) struct Source<'a, M> {
    pub(super) memory: &'a M,
    pub(super) interpreter: Option<&'a Interpreter>,
    /// The states of the thread, the newest interpreter first.
    pub(super) states: &'a [ThreadState],
    /// The thread's `pthread_self()`.
    pub(super) thread_id: u64,
    pub(super) registers: &'a Registers,
    /// Addresses of kernel frames, leaf first, as bytes.
    pub(super) kernel: &'a [u8],
}

impl Walker {
    pub(super) fn new(seed: u64, with_native: bool) -> Self {
        Self {
            scratch: Box::default(),
            python: Box::default(),
            native: Box::new(NativeWalk::new()),
            record: Box::default(),
            seed,
            with_native,
        }
    }

    /// Reads the stack of a thread, whose native frames are in this code; code objects that are new are added to
    /// `batch`.
    pub(super) fn walk<M: UserMemory, C: CodeLookup>(
        &mut self,
        source: &Source<'_, M>,
        code: &mut C,
        symbols: &mut KnownCode,
        batch: &mut Batch,
    ) -> (Walked, StackRecords) {
        let mut records = StackRecords::default();
        let mut walked = self.walk_python(source, symbols, batch, &mut records);
        if self.with_native {
            let status = self.walk_native(source, code);
            self.native.stack.push_pending_run();
            walked.native_status = status;
            walked.native_stack = self.native.stack.hash();
            if walked.native_stack != 0 {
                self.native.stack.finish_record();
                self.native.stack.record().clone_into(&mut records.native);
            }
        }
        walked.check();
        (walked, records)
    }

    fn walk_python<M: UserMemory>(
        &mut self,
        source: &Source<'_, M>,
        symbols: &mut KnownCode,
        batch: &mut Batch,
        records: &mut StackRecords,
    ) -> Walked {
        self.python.clear();
        let mut walked = Walked {
            python_status: PythonUnwindStatus::NO_PYTHON,
            ..Walked::UNPROVED
        };
        let Some(interpreter) = source.interpreter else {
            return walked;
        };
        if source.states.is_empty() {
            walked.python_status = PythonUnwindStatus::NO_THREAD_STATE;
            return walked;
        }
        let mut position = WalkPosition::new();
        let mut steps = PythonSteps {
            walk: ThreadWalk {
                memory: source.memory,
                scratch: &mut self.scratch,
                layout: &interpreter.layout,
                walk: &mut self.python,
                position: &mut position,
                thread_id: source.thread_id,
            },
            states: source.states,
            symbols,
        };
        walked.python_status = steps.unwind();
        walked.holds_gil = position.holds_gil() || holds_gil(source, interpreter);
        walked.collects_garbage = collects_garbage(
            source.memory,
            &interpreter.layout,
            source.states[0].interpreter,
            interpreter.head,
            walked.holds_gil,
            |holder| is_own(source, holder),
        );
        if self.finish_python(
            source.memory,
            interpreter,
            symbols,
            batch,
            &mut walked,
            records,
        ) {
            let mut name = TaskName::NONE;
            walked.task = read_running_task(
                source.memory,
                &mut self.scratch,
                &interpreter.layout,
                interpreter.tasks,
                source.states[0].address,
                self.seed,
                &mut name,
            );
            records.set_task(walked.task, &name);
        }
        walked.root_symbol = self.python.stack.root_symbol();
        walked.root = self.python.root();
        walked
    }

    /// The stack of a task.
    pub(super) fn walk_task<M: UserMemory>(
        &mut self,
        memory: &M,
        interpreter: &Interpreter,
        task: &TaskStack,
        symbols: &mut KnownCode,
        batch: &mut Batch,
    ) -> (Walked, StackRecords) {
        let mut records = StackRecords::default();
        let mut walked = Walked::UNPROVED;
        let layout = &interpreter.layout;
        if let Some(frames) = &task.frames {
            self.python.stack.clear();
            for frame in frames {
                let symbol = symbols.symbol(memory, &mut self.scratch, layout, frame.code);
                let (offset, is_coroutine) = (frame.instruction_offset, frame.is_coroutine);
                let frame = Frame::of_code(frame.code, symbol, offset, is_coroutine);
                if frame.kind != FrameKind::HIDDEN {
                    self.python.stack.push_frame(frame);
                }
            }
            self.finish_python(
                memory,
                interpreter,
                symbols,
                batch,
                &mut walked,
                &mut records,
            );
            walked.python_status = if task.is_cut {
                PythonUnwindStatus::INNER_UNKNOWN
            } else {
                PythonUnwindStatus::COMPLETE
            };
        }
        if let Some(address) = task.address {
            let mut name = TaskName::NONE;
            walked.task = read_task(
                memory,
                &mut self.scratch,
                layout,
                interpreter.tasks,
                address,
                self.seed,
                &mut name,
            );
            records.set_task(walked.task, &name);
        }
        (walked, records)
    }

    /// Describes the code objects of the frames that were found, and makes the record of their stack; [`false`] where there
    /// are none.
    fn finish_python<M: UserMemory>(
        &mut self,
        memory: &M,
        interpreter: &Interpreter,
        symbols: &mut KnownCode,
        batch: &mut Batch,
        walked: &mut Walked,
        records: &mut StackRecords,
    ) -> bool {
        let stack = &self.python.stack;
        let mut describer = Describer {
            memory,
            scratch: &mut self.scratch,
            layout: &interpreter.layout,
            record: &mut self.record,
            seed: self.seed,
            batch,
        };
        describer.describe(stack, symbols);
        let shape = self.python.stack.shape();
        let mut hash = Hash::new(self.seed);
        for nth in 0..usize::from(shape.frame_count) {
            let find = |code| symbols.find(code);
            let is_unresolved;
            (hash, is_unresolved) = self.python.stack.hash_frame(nth, shape, hash, find);
            walked.is_whole &= !is_unresolved;
        }
        if shape.frame_count == 0 {
            return false;
        }
        let hash = hash.finish();
        self.python.stack.finish_record(shape, hash);
        walked.stack = hash;
        self.python.stack.record().clone_into(&mut records.python);
        true
    }

    fn walk_native<M: UserMemory, C: CodeLookup>(
        &mut self,
        source: &Source<'_, M>,
        code: &mut C,
    ) -> NativeUnwindStatus {
        let style = source
            .interpreter
            .map_or(RunStyle::EACH, |it| it.layout.frame.run_style);
        let mut steps = NativeSteps {
            walk: &mut self.native,
            scratch: &mut self.scratch,
            source,
            python: PythonFrames {
                runs: &self.python.runs,
                depth: self.python.stack.depth(),
                style,
            },
            code,
            seed: self.seed,
        };
        steps.unwind()
    }

    /// Start value of the hashes.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Somewhere to copy structures to.
    pub(super) fn scratch(&mut self) -> &mut Scratch {
        &mut self.scratch
    }
}

/// Whether the state of the thread is that which holds the GIL, where that is a variable.
fn holds_gil<M: UserMemory>(source: &Source<'_, M>, interpreter: &Interpreter) -> bool {
    let layout = &interpreter.layout;
    if layout.interpreter.gil_style == GilStyle::IN_THREAD || interpreter.gil_holder.is_null() {
        return false;
    }
    let holder = gil_holder(source.memory, layout, interpreter.gil_holder);
    is_own(source, holder)
}

/// Whether this is the address of a state of the thread.
fn is_own<M>(source: &Source<'_, M>, state: UserAddr) -> bool {
    !state.is_null() && source.states.iter().any(|own| own.address == state)
}

/// The steps of the walk through Python frames.
struct PythonSteps<'a, M> {
    walk: ThreadWalk<'a, M>,
    states: &'a [ThreadState],
    symbols: &'a mut KnownCode,
}

impl<M: UserMemory> UnwindPython for PythonSteps<'_, M> {
    const FRAMES_PER_STEP: u32 = 1;

    fn load_state(&mut self) -> PythonOutcome {
        self.walk.load_first_state(self.states)
    }

    fn begin_walk(&mut self) -> PythonOutcome {
        self.walk.begin()
    }

    fn walk_frames(&mut self) -> PythonOutcome {
        let outcome = self.walk.walk_frames(self.symbols, Self::FRAMES_PER_STEP);
        if outcome == PythonOutcome::NEXT {
            return outcome;
        }
        self.continue_walk(outcome.status())
    }

    fn continue_walk(&mut self, status: PythonUnwindStatus) -> PythonOutcome {
        self.walk.continue_walk(self.states, status)
    }
}

/// The steps of the walk through native frames.
struct NativeSteps<'a, M, C> {
    walk: &'a mut NativeWalk,
    scratch: &'a mut Scratch,
    source: &'a Source<'a, M>,
    python: PythonFrames<'a>,
    code: &'a mut C,
    seed: u64,
}

impl<M: UserMemory, C: CodeLookup> UnwindNative for NativeSteps<'_, M, C> {
    const FRAMES_PER_STEP: u32 = 1;

    fn begin(&mut self) -> NativeOutcome {
        self.walk.clear(self.seed);
        let (frames, _) = self.source.kernel.as_chunks::<8>();
        for address in frames.iter().take(MAX_KERNEL_FRAMES) {
            self.walk
                .stack
                .push_kernel_frame(u64::from_ne_bytes(*address));
        }
        let registers = self.source.registers;
        if *registers == Registers::ZERO || !registers.are_of_64_bits() {
            return NativeOutcome::ended(NativeUnwindStatus::NO_REGISTERS);
        }
        registers.begin(self.walk);
        NativeOutcome::NEXT
    }

    fn walk_frames(&mut self) -> NativeOutcome {
        let step = self.walk.walk_frames(
            self.source.memory,
            self.scratch,
            self.python,
            self.code,
            Self::FRAMES_PER_STEP,
        );
        step.into()
    }
}
