//! The memory of a process, made in a test: an interpreter with threads, frames and code
//! objects in the layout of CPython 3.12, and all the ways to break it.

use std::{cell::Cell, collections::BTreeMap};

use agent_common::{
    hash::Hash,
    layout::{
        ABSENT, CodeLayout, ExceptionLayout, FrameLayout, GilStyle, InstanceStyle,
        InstructionStyle, InterpreterLayout, KeysStyle, Layout, LineTableFormat, ObjectLayout,
        RunStyle, TextLayout, TextStyle, ThreadLayout,
    },
    maps::{CodeIdentity, SearchedStates, ThreadState, ThreadStates},
    memory::{Fault, UserAddr, UserMemory},
    python::{
        CodeObjectRecord, CodeSymbol, FindState, PythonOutcome, PythonWalk, SearchStep, StateList,
        SymbolLookup, ThreadStateSearch, ThreadWalk, UnwindPython, WalkPosition, read_identity,
    },
    record::{Frame, FrameKind, PythonUnwindStatus},
    scratch::Scratch,
};

/// The layout of CPython 3.12, except that evaluation loops do not lead to each other.
pub(crate) const LAYOUT: Layout = Layout {
    interpreter: InterpreterLayout {
        runtime_head: 40,
        runtime_gil_holder: ABSENT,
        next: 0,
        threads_head: 72,
        newest_state_id: 64,
        gil: ABSENT,
        gil_style: GilStyle::IN_THREAD,
        gc_collecting: 48,
        runtime_gc_collecting: ABSENT,
    },
    thread: ThreadLayout {
        bytes: 248,
        previous: 0,
        next: 8,
        interpreter: 16,
        thread_id: 136,
        id: 224,
        frame: 56,
        cframe_current_frame: 0,
        cframe_previous: ABSENT,
        datastack_chunk: 232,
        datastack_top: 240,
        attached: 24,
        attached_mask: 16,
        attached_value: 16,
    },
    frame: FrameLayout {
        bytes: 72,
        previous: 8,
        function: 16,
        code: 0,
        instruction: 56,
        owner: 70,
        locals: 72,
        bytecode_copy: ABSENT,
        entry: ABSENT,
        run_style: RunStyle::EACH,
        instruction_style: InstructionStyle::POINTER,
        instruction_unit: 1,
    },
    code: CodeLayout {
        bytes: 184,
        file: 112,
        name: 128,
        first_line: 68,
        line_table: 136,
        first_traceable: 176,
        bytecode: 192,
        bytecode_copies: ABSENT,
        line_table_format: LineTableFormat::LOCATIONS,
    },
    text: TextLayout {
        bytes: 40,
        length: 16,
        hash: 24,
        state: 32,
        state_mask: u16::MAX,
        state_bits: 0,
        kind_bit: 2,
        compact_bit: 5,
        ascii_bit: 6,
        ascii_data: 40,
        compact_data: 56,
        bytes_size: 16,
        bytes_data: 32,
        style: TextStyle::UNICODE,
    },
    object: ObjectLayout {
        class: 8,
        class_basic_size: 32,
        class_dict_offset: 288,
        class_cached_keys: 880,
        dict_keys: 32,
        dict_values: 40,
        values_head: 0,
        before_object: 24,
        gc_head: 16,
        instance: InstanceStyle::VALUES_OR_DICT,
        keys: KeysStyle::LOG2,
    },
    exception: ExceptionLayout {
        current: 96,
        traceback: 40,
        thread_class: ABSENT,
        thread_traceback: ABSENT,
        class_name: 24,
    },
};

/// Pages of memory by address.
#[derive(Default)]
pub(crate) struct Image {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    next: u64,
    /// How often memory was read.
    pub(crate) reads: Cell<u64>,
}

const PAGE: usize = 4096;

impl Image {
    pub(crate) fn new() -> Self {
        Self {
            next: 0x5555_0000_0000,
            ..Self::default()
        }
    }

    /// Maps `bytes` bytes of zeros somewhere.
    pub(crate) fn map(&mut self, bytes: u64) -> u64 {
        let start = self.next;
        // Sixteen bytes apart, as an allocator would do it.
        self.next += bytes.next_multiple_of(16);
        self.map_at(start, bytes);
        start
    }

    /// Maps zeros from `start` on where nothing is mapped.
    pub(crate) fn map_at(&mut self, start: u64, bytes: u64) {
        for page in start / PAGE as u64..=(start + bytes) / PAGE as u64 {
            self.pages
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE]));
        }
    }

    /// Takes away the page that `address` is in.
    pub(crate) fn unmap(&mut self, address: u64) {
        self.pages.remove(&(address / PAGE as u64));
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) {
        for (address, byte) in (address..).zip(bytes) {
            let page = self.pages.get_mut(&(address / PAGE as u64)).unwrap();
            page[address as usize % PAGE] = *byte;
        }
    }

    pub(crate) fn put(&mut self, address: u64, offset: u16, value: u64) {
        self.write(address + u64::from(offset), &value.to_ne_bytes());
    }

    /// A string object of Latin-1 characters.
    pub(crate) fn text(&mut self, text: &str) -> u64 {
        let object = self.map(64 + text.len() as u64);
        self.put(object, LAYOUT.text.length, text.len() as u64);
        let state =
            1 << LAYOUT.text.kind_bit | 1 << LAYOUT.text.compact_bit | 1 << LAYOUT.text.ascii_bit;
        self.put(object, LAYOUT.text.state, state);
        self.write(object + u64::from(LAYOUT.text.ascii_data), text.as_bytes());
        object
    }

    /// A bytes object.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let object = self.map(40 + bytes.len() as u64);
        self.put(object, LAYOUT.text.bytes_size, bytes.len() as u64);
        self.write(object + u64::from(LAYOUT.text.bytes_data), bytes);
        object
    }

    /// A code object whose first traceable instruction is its second.
    pub(crate) fn code(&mut self, name: &str, first_line: u32) -> u64 {
        let (name, file) = (self.text(name), self.text("/srv/app.py"));
        let table = self.bytes(&[0xf0, 1, 2, 3, 0xf8, 0]);
        let object = self.map(256);
        let fields = LAYOUT.code;
        self.put(object, fields.name, name);
        self.put(object, fields.file, file);
        self.put(object, fields.line_table, table);
        self.write(
            object + u64::from(fields.first_line),
            &first_line.to_ne_bytes(),
        );
        self.write(
            object + u64::from(fields.first_traceable),
            &1_u32.to_ne_bytes(),
        );
        object
    }

    /// Writes a frame that stands at `offset` bytes of its bytecode.
    pub(crate) fn frame_at(
        &mut self,
        address: u64,
        code: u64,
        previous: u64,
        offset: u64,
        owner: u8,
    ) {
        let fields = LAYOUT.frame;
        self.put(address, fields.code, code);
        self.put(address, fields.previous, previous);
        let bytecode = code + u64::from(LAYOUT.code.bytecode);
        self.put(address, fields.instruction, bytecode + offset);
        self.write(address + u64::from(fields.owner), &[owner]);
    }

    /// A frame outside of any data stack.
    pub(crate) fn frame(&mut self, code: u64, previous: u64) -> u64 {
        let address = self.map(96);
        self.frame_at(address, code, previous, 4, 0);
        address
    }
}

impl UserMemory for Image {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        self.reads.set(self.reads.get() + 1);
        for index in 0..u64::from(bytes) {
            let address = address.0.wrapping_add(index);
            let page = self.pages.get(&(address / PAGE as u64)).ok_or(Fault)?;
            let byte = page[address as usize % PAGE];
            // SAFETY: the caller vouches for `bytes` bytes.
            unsafe { into.add(index as usize).write(byte) };
        }
        Ok(())
    }
}

/// A process with one interpreter.
pub(crate) struct Process {
    pub(crate) image: Image,
    pub(crate) interpreters_head: u64,
    pub(crate) interpreter: u64,
    created_states: u64,
}

impl Process {
    pub(crate) fn new() -> Self {
        let mut image = Image::new();
        let interpreters_head = image.map(8);
        let interpreter = image.map(128);
        image.put(interpreters_head, 0, interpreter);
        Self {
            image,
            interpreters_head,
            interpreter,
            created_states: 0,
        }
    }

    /// Puts a thread at the head of the list; `frame` is its newest frame.
    pub(crate) fn add_thread(&mut self, thread_id: u64, frame: u64) -> u64 {
        let image = &mut self.image;
        let thread = image.map(512);
        let head = UserAddr(self.interpreter).field(LAYOUT.interpreter.threads_head);
        let next = image.word_at(head);
        let fields = LAYOUT.thread;
        image.put(thread, fields.next, next);
        if next != 0 {
            image.put(next, fields.previous, thread);
        }
        image.put(head.0, 0, thread);
        image.put(thread, fields.interpreter, self.interpreter);
        image.put(thread, fields.thread_id, thread_id);
        let cframe = image.map(16);
        image.put(cframe, 0, frame);
        image.put(thread, fields.frame, cframe);
        thread
    }

    /// Puts a state with a new id at the head of the list, in the memory of a freed one.
    pub(crate) fn enter(&mut self, layout: &Layout, state: u64, thread_id: u64) {
        let interpreter = UserAddr(self.interpreter);
        let (image, fields) = (&mut self.image, &layout.thread);
        let head = interpreter.field(layout.interpreter.threads_head);
        let next = image.word_at(head);
        image.put(state, fields.next, next);
        image.put(state, fields.interpreter, interpreter.0);
        image.put(state, fields.thread_id, thread_id);
        image.put(head.0, 0, state);
        self.created_states += 1;
        if fields.previous != ABSENT {
            image.put(state, fields.previous, 0);
            if next != 0 {
                image.put(next, fields.previous, state);
            }
        }
        if fields.id != ABSENT {
            image.put(state, fields.id, self.created_states);
        }
        if layout.interpreter.newest_state_id != ABSENT {
            let id = layout.interpreter.newest_state_id;
            image.put(interpreter.0, id, self.created_states);
        }
    }

    /// Removes the state at the head of the list; its memory keeps its contents.
    pub(crate) fn leave(&mut self, layout: &Layout) {
        let head = UserAddr(self.interpreter).field(layout.interpreter.threads_head);
        let state = UserAddr(self.image.word_at(head));
        let next = self.image.word_at(state.field(layout.thread.next));
        self.image.put(head.0, 0, next);
        if layout.thread.previous != ABSENT && next != 0 {
            self.image.put(next, layout.thread.previous, 0);
        }
    }

    /// Lets a thread's data stack be the `bytes` bytes from `chunk` on.
    pub(crate) fn set_data_stack(&mut self, thread: u64, chunk: u64, bytes: u64) {
        let fields = LAYOUT.thread;
        self.image.put(thread, fields.datastack_chunk, chunk);
        self.image.put(thread, fields.datastack_top, chunk + bytes);
    }

    /// A thread with a data stack of frames, leaf last; the leaf's address and the thread's.
    pub(crate) fn add_stack(&mut self, thread_id: u64, codes: &[u64]) -> (u64, u64) {
        const FRAME: u64 = 120;
        let bytes = 24 + codes.len() as u64 * FRAME;
        let chunk = self.image.map(bytes);
        let mut previous = 0;
        let starts = (chunk + 24..).step_by(FRAME as usize);
        for (address, code) in starts.zip(codes) {
            self.image.frame_at(address, *code, previous, 4, 0);
            previous = address;
        }
        let thread = self.add_thread(thread_id, previous);
        self.set_data_stack(thread, chunk, bytes);
        (previous, thread)
    }

    /// Searches and proves the state of a thread.
    pub(crate) fn find(&self, thread_id: u64) -> Result<ThreadState, PythonUnwindStatus> {
        find(&self.image, self.interpreters_head, thread_id)
    }

    /// Takes a sample of a thread.
    pub(crate) fn sample(&self, thread_id: u64) -> Sampled {
        sample(&self.image, self.interpreters_head, thread_id)
    }
}

impl Image {
    fn word_at(&self, address: UserAddr) -> u64 {
        UserMemory::word(self, address).unwrap()
    }
}

/// What a sample came to, in the order of the stack.
pub(crate) struct Sampled {
    pub(crate) frames: Vec<Frame>,
    pub(crate) end: PythonUnwindStatus,
    pub(crate) truncated: bool,
    pub(crate) hash: u64,
}

/// The steps of a sample, without a cache.
pub(crate) struct Steps<'a, L> {
    walk: ThreadWalk<'a, Image>,
    interpreters_head: u64,
    search: ThreadStateSearch,
    symbols: L,
}

impl<L: SymbolLookup> FindState for Steps<'_, L> {
    const STATES_PER_STEP: u32 = 1;

    fn load_cached_state(&mut self) -> PythonOutcome {
        if self.search.states.count() == 0 {
            return PythonOutcome::NEXT;
        }
        self.walk.load_first_state(&States(&self.search.states))
    }

    fn begin_search(&mut self) -> PythonOutcome {
        let head = UserAddr(self.interpreters_head);
        match self.search.begin(
            self.walk.memory,
            self.walk.layout,
            head,
            SearchedStates::NONE,
        ) {
            Ok(()) => PythonOutcome::NEXT,
            Err(Fault) => PythonOutcome::FAULT,
        }
    }

    fn search(&mut self) -> PythonOutcome {
        let walk = &mut self.walk;
        let step = self
            .search
            .step(walk.memory, walk.scratch, walk.layout, walk.thread_id);
        match step {
            SearchStep::Next => PythonOutcome::NEXT,
            SearchStep::Done if self.search.states.count() == 0 => {
                PythonOutcome::ended(PythonUnwindStatus::NO_THREAD_STATE)
            }
            SearchStep::Done => PythonOutcome::DONE,
            SearchStep::End(status) => PythonOutcome::ended(status),
        }
    }
}

impl<L: SymbolLookup> UnwindPython for Steps<'_, L> {
    const FRAMES_PER_STEP: u32 = 1;

    fn load_state(&mut self) -> PythonOutcome {
        self.find_state()
    }

    fn begin_walk(&mut self) -> PythonOutcome {
        self.walk.begin()
    }

    fn walk_frames(&mut self) -> PythonOutcome {
        let outcome = self
            .walk
            .walk_frames(&mut self.symbols, Self::FRAMES_PER_STEP);
        if outcome == PythonOutcome::NEXT {
            return outcome;
        }
        self.continue_walk(outcome.status())
    }

    fn continue_walk(&mut self, status: PythonUnwindStatus) -> PythonOutcome {
        self.walk
            .continue_walk(&States(&self.search.states), status)
    }
}

/// The states that a search has found.
struct States<'a>(&'a ThreadStates);

impl StateList for States<'_> {
    fn state(&self, nth: u32) -> ThreadState {
        self.0.get(nth)
    }
}

/// Searches the state of a thread.
pub(crate) fn find(
    image: &Image,
    interpreters_head: u64,
    thread_id: u64,
) -> Result<ThreadState, PythonUnwindStatus> {
    let mut walk = PythonWalk::new();
    with_steps(
        image,
        &LAYOUT,
        interpreters_head,
        thread_id,
        &mut walk,
        |steps| {
            let outcome = steps.find_state();
            if outcome == PythonOutcome::DONE {
                Ok(steps.search.states.first())
            } else {
                Err(outcome.status())
            }
        },
    )
}

/// Unwinds the frames of a thread into `walk`.
pub(crate) fn unwind(
    image: &Image,
    layout: &Layout,
    interpreters_head: u64,
    thread_id: u64,
    walk: &mut PythonWalk,
) -> PythonUnwindStatus {
    with_steps(image, layout, interpreters_head, thread_id, walk, |steps| {
        steps.unwind()
    })
}

fn with_steps<T>(
    image: &Image,
    layout: &Layout,
    interpreters_head: u64,
    thread_id: u64,
    walk: &mut PythonWalk,
    drive: impl FnOnce(&mut Steps<'_, Unknown>) -> T,
) -> T {
    let mut scratch = Box::new(Scratch::new());
    drive(&mut Steps {
        walk: ThreadWalk {
            memory: image,
            scratch: &mut scratch,
            layout,
            walk,
            position: &mut WalkPosition::new(),
            thread_id,
        },
        interpreters_head,
        search: ThreadStateSearch::new(),
        symbols: Unknown,
    })
}

/// Takes a sample.
pub(crate) fn sample(image: &Image, interpreters_head: u64, thread_id: u64) -> Sampled {
    let mut scratch = Box::new(Scratch::new());
    let mut walk = Box::new(PythonWalk::new());
    let end = unwind(image, &LAYOUT, interpreters_head, thread_id, &mut walk);
    let shape = walk.stack.shape();
    let mut hash = Hash::new(1);
    for nth in 0..usize::from(shape.frame_count) {
        (hash, _) = walk.stack.hash_frame(nth, shape, hash, |code| {
            read_code_object(image, &mut scratch, code)
        });
    }
    let (leaf, root) = walk
        .stack
        .frames
        .split_at(agent_common::limits::LEAF_FRAMES);
    let mut frames = leaf.to_vec();
    frames.extend(&root[usize::from(shape.root_start)..]);
    frames.extend(&root[..usize::from(shape.root_start)]);
    frames.truncate(usize::from(shape.frame_count));
    frames.retain(|frame| frame.kind != FrameKind::HIDDEN);
    Sampled {
        frames,
        end,
        truncated: shape.left_out != 0,
        hash: hash.finish(),
    }
}

/// Describes a code object; its symbol.
pub(crate) fn read_code_object(
    image: &Image,
    scratch: &mut Scratch,
    code: UserAddr,
) -> Option<CodeSymbol> {
    let head: CodeIdentity = read_identity(image, scratch, &LAYOUT, code).ok()?;
    let mut description = Box::new(CodeObjectRecord::new());
    description.read(image, scratch, &LAYOUT, &head).ok()?;
    let hash = description.finish_record(1);
    Some(CodeSymbol {
        hash,
        first_traceable_bytes: head.first_traceable_bytes,
    })
}

/// An empty cache: all code objects have to be read.
pub(crate) struct Unknown;

impl SymbolLookup for Unknown {
    fn symbol<M: UserMemory>(
        &mut self,
        _: &M,
        _: &mut Scratch,
        _: &Layout,
        _: UserAddr,
    ) -> Option<CodeSymbol> {
        None
    }
}
