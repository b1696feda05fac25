//! Threads that have a state only while they are in Python, with caches as the BPF programs have them.

use agent_common::{
    cache_age::CacheAge,
    layout::{ABSENT, GilStyle, InterpreterLayout, Layout, ThreadLayout},
    maps::{SearchedStates, ThreadStates, TrackedThread},
    memory::UserAddr,
    python::{
        ProcessPointers, PythonOutcome, PythonWalk, SearchStep, ThreadStateSearch, ThreadWalk,
        WalkPosition,
    },
    record::PythonUnwindStatus,
    scratch::Scratch,
};

use crate::image::{Image, LAYOUT, Process};

const MAIN: u64 = 0x7f00_0000_1000;
const ONE: u64 = 0x7f00_0000_2000;
const OTHER: u64 = 0x7f00_0000_3000;
const THIRD: u64 = 0x7f00_0000_4000;

/// When no search is due: eight time units after one that confirmed what was so for 80.
const NOW_NS: u64 = 88;

/// The ways in which versions distinguish the newest state.
fn layouts() -> [Layout; 3] {
    let with = |newest_state_id, id, gil_style| Layout {
        interpreter: InterpreterLayout {
            newest_state_id,
            gil_style,
            ..LAYOUT.interpreter
        },
        thread: ThreadLayout {
            id,
            ..LAYOUT.thread
        },
        ..LAYOUT
    };
    [
        LAYOUT,
        with(ABSENT, LAYOUT.thread.id, GilStyle::LAST_HOLDER),
        with(ABSENT, ABSENT, GilStyle::HOLDER),
    ]
}

/// A process with a main thread, and memory for the states of others.
fn process(layout: &Layout) -> (Process, [u64; 2]) {
    let mut process = Process::new();
    let [main, first, second] = [(); 3].map(|()| process.image.map(512));
    process.enter(layout, main, MAIN);
    (process, [first, second])
}

/// What is known of a thread.
struct Cached {
    layout: Layout,
    thread_id: u64,
    thread: TrackedThread,
    gil_holder: u64,
    searches: u32,
    /// Whether the last sample found that it collects garbage.
    collects_garbage: bool,
}

impl Cached {
    fn new(layout: Layout, thread_id: u64) -> Self {
        Self {
            layout,
            thread_id,
            thread: TrackedThread {
                states: ThreadStates::new(),
                searched_states: SearchedStates::NONE,
                thread_id,
                searched: CacheAge::NEVER,
                named: CacheAge::NEVER,
                name: 0,
                tgid: 1,
                reserved: 0,
            },
            gil_holder: 0,
            searches: 0,
            collects_garbage: false,
        }
    }

    /// Whether a sample finds a state of the thread.
    fn is_in_python(&mut self, process: &Process) -> bool {
        let Self {
            layout, thread_id, ..
        } = *self;
        let mut scratch = Box::new(Scratch::new());
        let mut walk = Box::new(PythonWalk::new());
        let mut position = WalkPosition::new();
        let outcome = ThreadWalk {
            memory: &process.image,
            scratch: &mut scratch,
            layout: &layout,
            walk: &mut walk,
            position: &mut position,
            thread_id,
        }
        .load_cached_state(
            &self.thread,
            ProcessPointers {
                interpreters_head: UserAddr(process.interpreters_head),
                gil_holder: UserAddr(self.gil_holder),
            },
            NOW_NS,
        );
        self.collects_garbage = position.collects_garbage();
        if outcome == PythonOutcome::NEXT {
            self.search(&process.image, UserAddr(process.interpreters_head));
            return self.thread.states.count() != 0;
        }
        let none = PythonOutcome::ended(PythonUnwindStatus::NO_THREAD_STATE);
        assert!(outcome == PythonOutcome::DONE || outcome == none);
        outcome == PythonOutcome::DONE
    }

    fn search(&mut self, image: &Image, interpreters_head: UserAddr) {
        let layout = &self.layout;
        self.searches += 1;
        let mut scratch = Box::new(Scratch::new());
        let mut search = ThreadStateSearch::new();
        let visited = self.thread.visited_states(layout, NOW_NS);
        search
            .begin(image, layout, interpreters_head, visited)
            .unwrap();
        let last = (0..1_000)
            .map(|_| search.step(image, &mut scratch, layout, self.thread_id))
            .find(|step| *step != SearchStep::Next);
        assert_eq!(last, Some(SearchStep::Done));
        self.thread.states = search.states;
        self.thread.searched_states = search.searched_states();
        self.thread.searched = CacheAge {
            since_ns: 0,
            revalidated_ns: 80,
        };
    }
}

#[test]
fn a_thread_without_a_state_is_searched_once() {
    for layout in layouts() {
        let (process, _) = process(&layout);
        let mut one = Cached::new(layout, ONE);
        for _ in 0..5 {
            assert!(!one.is_in_python(&process));
        }
        assert_eq!(one.searches, 1);
    }
}

#[test]
fn a_new_state_is_found_at_once() {
    for layout in layouts() {
        let (mut process, [memory, _]) = process(&layout);
        let mut one = Cached::new(layout, ONE);
        for _ in 0..5 {
            assert!(!one.is_in_python(&process));
            process.enter(&layout, memory, ONE);
            assert!(one.is_in_python(&process));
            process.leave(&layout);
        }
    }
}

#[test]
fn a_new_state_in_the_memory_of_another_threads_is_found_at_once() {
    for layout in layouts() {
        let (mut process, [memory, _]) = process(&layout);
        let holder = process.image.map(16);
        let mut one = Cached::new(layout, ONE);
        one.gil_holder = holder;
        process.enter(&layout, memory, OTHER);
        process.image.put(holder, 0, memory);
        process.image.put(holder, 8, 1);
        assert!(!one.is_in_python(&process));
        process.leave(&layout);
        process.enter(&layout, memory, ONE);
        assert!(one.is_in_python(&process));
    }
}

#[test]
fn only_who_holds_the_gil_collects_garbage() {
    for layout in &layouts()[1..] {
        let (mut process, [memory, _]) = process(layout);
        let holder = process.image.map(16);
        let mut one = Cached::new(*layout, ONE);
        one.gil_holder = holder;
        process.enter(layout, memory, ONE);
        assert!(one.is_in_python(&process));
        for (state, is_locked, is_collecting) in
            [(memory, 1, 1), (memory, 1, 0), (memory, 0, 1), (0, 1, 1)]
        {
            process
                .image
                .put(holder, 0, if is_locked == 1 { state } else { 0 });
            process.image.put(holder, 8, is_locked);
            let word = layout.interpreter.gc_collecting;
            process.image.put(process.interpreter, word, is_collecting);
            assert!(one.is_in_python(&process));
            let collects = state != 0 && is_locked == 1 && is_collecting == 1;
            assert_eq!(one.collects_garbage, collects);
        }
    }
}

#[test]
fn a_new_state_behind_a_newer_one_is_found_at_once() {
    for layout in layouts() {
        let (mut process, [memory, others]) = process(&layout);
        let mut one = Cached::new(layout, ONE);
        process.enter(&layout, others, OTHER);
        assert!(!one.is_in_python(&process));
        process.leave(&layout);
        process.enter(&layout, memory, ONE);
        process.enter(&layout, others, OTHER);
        assert!(one.is_in_python(&process));
    }
}

#[test]
fn a_new_state_in_an_older_interpreter_is_found_at_once() {
    for layout in layouts() {
        let (mut process, [memory, newer_state]) = process(&layout);
        let older = process.interpreter;
        let newer = process.image.map(128);
        process.image.put(newer, layout.interpreter.next, older);
        process.image.put(process.interpreters_head, 0, newer);
        process.interpreter = newer;
        process.enter(&layout, newer_state, OTHER);
        let mut one = Cached::new(layout, ONE);
        assert!(!one.is_in_python(&process));
        assert!(!one.is_in_python(&process));
        assert_eq!(one.searches, 1);
        process.interpreter = older;
        process.enter(&layout, memory, ONE);
        assert!(one.is_in_python(&process));
    }
}

#[test]
fn only_new_states_are_visited_again() {
    for layout in layouts()
        .into_iter()
        .filter(|layout| layout.thread.id != ABSENT)
    {
        let (mut process, [memory, others]) = process(&layout);
        for nth in 0..200 {
            let idle = process.image.map(512);
            process.enter(&layout, idle, THIRD + nth * 8);
        }
        let mut one = Cached::new(layout, ONE);
        assert!(!one.is_in_python(&process));
        process.enter(&layout, others, OTHER);
        process.image.reads.set(0);
        assert!(!one.is_in_python(&process));
        assert_eq!(one.searches, 2);
        assert!(process.image.reads.get() < 16, "{:?}", process.image.reads);
        process.enter(&layout, memory, ONE);
        assert!(one.is_in_python(&process));
    }
}
