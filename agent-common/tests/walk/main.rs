//! The reading of a process, on memory images made here.
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are small and made in the test"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(missing_docs, reason = "tests are documented by their names")]

mod capabilities;
mod exceptions;
mod image;
mod running_task;
mod threads_in_turn;
mod written;

use agent_common::{
    layout::RunStyle,
    limits::{LEAF_FRAMES, MAX_FRAMES, MAX_VISITED, ROOT_FRAMES},
    python::{PythonWalk, revalidate},
    record::{FrameKind, PythonUnwindStatus},
    scratch::Scratch,
};
use image::{Image, LAYOUT, Process, Sampled, sample};
use proptest::prelude::*;

const THREAD: u64 = 0x7f00_0000_1740;

/// A process in which `THREAD` runs `depth` frames of as many code objects, root first.
fn process(depth: u32) -> (Process, Vec<u64>) {
    let mut process = Process::new();
    let codes: Vec<u64> = (0..depth)
        .map(|index| process.image.code(&format!("f{index}"), index + 1))
        .collect();
    process.add_stack(THREAD, &codes);
    (process, codes)
}

/// The symbols of code objects, in the given order.
fn symbols(process: &Process, codes: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut scratch = Box::new(Scratch::new());
    codes
        .into_iter()
        .map(|code| {
            let code = agent_common::memory::UserAddr(code);
            image::read_code_object(&process.image, &mut scratch, code)
                .unwrap()
                .hash
        })
        .collect()
}

fn symbols_of(sampled: &Sampled) -> Vec<u64> {
    sampled.frames.iter().map(|frame| frame.symbol).collect()
}

#[test]
fn a_stack_is_read_leaf_first_with_its_offsets() {
    let (process, codes) = process(30);
    let sampled = process.sample(THREAD);
    assert_eq!(sampled.end, PythonUnwindStatus::COMPLETE);
    assert_eq!(
        symbols_of(&sampled),
        symbols(&process, codes.into_iter().rev())
    );
    for frame in &sampled.frames {
        assert_eq!(frame.kind, FrameKind::PYTHON);
        assert_eq!(frame.instruction_offset, 4);
    }
}

#[test]
fn frames_on_the_data_stack_cost_no_read_each() {
    let (shallow, _) = process(2);
    let (deep, _) = process(60);
    shallow.image.reads.set(0);
    let few = {
        shallow.sample(THREAD);
        shallow.image.reads.get()
    };
    deep.image.reads.set(0);
    deep.sample(THREAD);
    // What remains is the description of each code object, which the test does anew.
    let per_description = 8;
    assert!(deep.image.reads.get() <= few + 58 * per_description);
}

#[test]
fn a_data_stack_of_several_chunks_is_followed() {
    const FRAMES: u64 = 60;
    const FRAME: u64 = 120;
    const CHUNK: u64 = 24 + FRAMES * FRAME;
    let mut process = Process::new();
    let code = process.image.code("f", 1);
    let (mut previous_chunk, mut previous_frame) = (0, 0);
    for _ in 0..5 {
        let chunk = process.image.map(CHUNK);
        process.image.put(chunk, 0, previous_chunk);
        process.image.put(chunk, 8, CHUNK);
        for nth in 0..FRAMES {
            let frame = chunk + 24 + nth * FRAME;
            process.image.frame_at(frame, code, previous_frame, 4, 0);
            previous_frame = frame;
        }
        previous_chunk = chunk;
    }
    let thread = process.add_thread(THREAD, previous_frame);
    process.set_data_stack(thread, previous_chunk, CHUNK);
    let shallow = process.add_thread(THREAD + 8, previous_frame);

    process.image.reads.set(0);
    assert_eq!(process.sample(THREAD).frames.len(), 300);
    let with_chunks = process.image.reads.get();
    // The same frames without a data stack: one read each.
    process.image.put(shallow, LAYOUT.thread.datastack_chunk, 0);
    process.image.reads.set(0);
    assert_eq!(process.sample(THREAD + 8).frames.len(), 300);
    assert!(process.image.reads.get() - with_chunks > 270);
}

/// From 3.12 on each evaluation loop begins with a frame of its own, so that a stack without one was read while it
/// changed; but code that was compiled ahead of time has frames without a loop, and without a function.
#[test]
fn the_root_is_a_frame_of_the_interpreter_or_one_without_a_function() {
    const FUNCTION: u64 = 0x7f00_1000;
    const INTERNAL: u8 = 3;
    let mut layout = LAYOUT;
    layout.frame.run_style = RunStyle::ENTRY_FRAMES;
    for (function, owner, has_internal, end) in [
        (FUNCTION, 0, true, PythonUnwindStatus::COMPLETE),
        (FUNCTION, 0, false, PythonUnwindStatus::TORN),
        (FUNCTION, 1, false, PythonUnwindStatus::TORN),
        (0, 0, false, PythonUnwindStatus::TORN),
        (0, 1, false, PythonUnwindStatus::COMPLETE),
        // As a tagged reference to nothing, from 3.14 on.
        (1, 2, false, PythonUnwindStatus::COMPLETE),
    ] {
        let mut process = Process::new();
        let code = process.image.code("f", 1);
        let mut root = 0;
        if has_internal {
            root = process.image.frame(0, 0);
            let owner = [INTERNAL];
            process
                .image
                .write(root + u64::from(LAYOUT.frame.owner), &owner);
        }
        let mut frame = root;
        for _ in 0..2 {
            let address = process.image.map(96);
            process.image.frame_at(address, code, frame, 4, owner);
            process.image.put(address, LAYOUT.frame.function, function);
            frame = address;
        }
        process.add_thread(THREAD, frame);
        let mut walk = Box::new(PythonWalk::new());
        let (image, head) = (&process.image, process.interpreters_head);
        let found = image::unwind(image, &layout, head, THREAD, &mut walk);
        assert_eq!(found, end, "{function:#x} {owner} {has_internal}");
        assert_eq!(walk.stack.depth(), 2);
    }
}

#[test]
fn all_frames_are_kept_up_to_the_limit() {
    for depth in [MAX_FRAMES - 1, MAX_FRAMES] {
        let (process, codes) = process(depth as u32);
        let sampled = process.sample(THREAD);
        assert!(!sampled.truncated);
        assert_eq!(
            symbols_of(&sampled),
            symbols(&process, codes.into_iter().rev())
        );
    }
}

#[test]
fn of_a_deeper_stack_both_ends_are_kept() {
    for depth in [MAX_FRAMES + 1, 800, 10_000] {
        let (process, codes) = process(depth as u32);
        let sampled = process.sample(THREAD);
        assert!(sampled.truncated);
        assert_eq!(sampled.end, PythonUnwindStatus::COMPLETE);
        let leaf = codes.iter().rev().take(LEAF_FRAMES);
        let root = codes[..ROOT_FRAMES].iter().rev();
        assert_eq!(
            symbols_of(&sampled),
            symbols(&process, leaf.chain(root).copied()),
            "{depth} frames"
        );
    }
}

#[test]
fn a_stack_without_end_is_given_up() {
    let (process, _) = process(MAX_VISITED + 10);
    let sampled = process.sample(THREAD);
    assert_eq!(sampled.end, PythonUnwindStatus::TOO_DEEP);
    assert_eq!(sampled.frames.len(), MAX_FRAMES);
}

#[test]
fn a_chain_that_leads_back_to_itself_is_noticed() {
    for (length, back_to) in [(1, 0), (2, 0), (30, 7), (400, 399), (1000, 3)] {
        let (mut process, codes) = process(length);
        let (leaf, _) = process.add_stack(THREAD + 1, &codes);
        let frame_bytes = 120;
        let frame = |nth: u64| leaf - (u64::from(length) - 1 - nth) * frame_bytes;
        // The root goes on to a frame nearer the leaf.
        process
            .image
            .put(frame(0), LAYOUT.frame.previous, frame(back_to));
        let sampled = process.sample(THREAD + 1);
        assert_eq!(
            sampled.end,
            PythonUnwindStatus::CYCLE,
            "{length} to {back_to}"
        );
    }
}

#[test]
fn a_dangling_frame_ends_the_walk_and_keeps_what_came_before() {
    let (mut process, codes) = process(10);
    let gone = process.image.map(8192) + 4096;
    process.image.unmap(gone);
    let next = process.image.frame(codes[1], gone & !7);
    let leaf = process.image.frame(codes[0], next);
    process.add_thread(THREAD + 1, leaf);
    let sampled = process.sample(THREAD + 1);
    assert_eq!(sampled.end, PythonUnwindStatus::FRAME_FAULT);
    assert_eq!(
        symbols_of(&sampled),
        symbols(&process, [codes[0], codes[1]])
    );
}

#[test]
fn pointers_that_no_structure_can_have_are_not_followed() {
    for bad in [1, 7, 0x1234_5679, !7, 1 << 63] {
        let (mut process, codes) = process(1);
        let leaf = process.image.frame(codes[0], bad);
        process.add_thread(THREAD + 1, leaf);
        let sampled = process.sample(THREAD + 1);
        assert_eq!(sampled.end, PythonUnwindStatus::BAD_POINTER, "{bad:#x}");
        assert_eq!(sampled.frames.len(), 1);
    }
}

#[test]
fn a_code_object_that_cannot_be_read_costs_its_frame_only() {
    let (mut process, codes) = process(2);
    let gone = process.image.map(8192) + 4096;
    process.image.unmap(gone);
    let root = process.image.frame(codes[0], 0);
    let middle = process.image.frame(gone & !15, root);
    let leaf = process.image.frame(codes[1], middle);
    process.add_thread(THREAD + 1, leaf);
    let sampled = process.sample(THREAD + 1);
    assert_eq!(sampled.end, PythonUnwindStatus::COMPLETE);
    let kinds: Vec<_> = sampled.frames.iter().map(|frame| frame.kind).collect();
    assert_eq!(
        kinds,
        [FrameKind::PYTHON, FrameKind::UNRESOLVED, FrameKind::PYTHON]
    );
}

#[test]
fn frames_that_the_interpreter_hides_are_not_shown() {
    const INTERPRETER: u8 = 3;
    const GENERATOR: u8 = 1;
    let (mut process, codes) = process(4);
    let [image_root, entry, incomplete, leaf] = [(); 4].map(|()| process.image.map(96));
    process.image.frame_at(image_root, codes[0], 0, 4, 0);
    process
        .image
        .frame_at(entry, codes[1], image_root, 4, INTERPRETER);
    // Neither has come to its first traceable instruction; for a generator that is no reason.
    process.image.frame_at(incomplete, codes[2], entry, 0, 0);
    process
        .image
        .frame_at(leaf, codes[3], incomplete, 0, GENERATOR);
    process.add_thread(THREAD + 1, leaf);
    let sampled = process.sample(THREAD + 1);
    assert_eq!(
        symbols_of(&sampled),
        symbols(&process, [codes[3], codes[0]])
    );
    // Before its first instruction a frame's position is in front of the bytecode.
    process.image.frame_at(leaf, codes[3], image_root, 0, 0);
    let before = codes[3] + u64::from(LAYOUT.code.bytecode) - 2;
    process.image.put(leaf, LAYOUT.frame.instruction, before);
    assert_eq!(
        symbols_of(&process.sample(THREAD + 1)),
        symbols(&process, [codes[0]])
    );
}

#[test]
fn a_data_stack_that_lies_costs_nothing() {
    for (chunk, bytes) in [
        (0_u64, 0_u64),
        (8, 1 << 40),
        (u64::MAX - 7, 8),
        (0x5555_0000_0000, 1 << 50),
        (3, 100),
    ] {
        let (mut process, codes) = process(40);
        let (_, thread) = process.add_stack(THREAD + 1, &codes);
        process
            .image
            .put(thread, LAYOUT.thread.datastack_chunk, chunk);
        process.image.put(
            thread,
            LAYOUT.thread.datastack_top,
            chunk.wrapping_add(bytes),
        );
        let sampled = process.sample(THREAD + 1);
        assert_eq!(sampled.end, PythonUnwindStatus::COMPLETE);
        assert_eq!(sampled.frames.len(), 40);
    }
}

#[test]
fn every_thread_is_found_and_no_other() {
    let mut process = Process::new();
    let code = process.image.code("f", 1);
    for id in 0..500 {
        process.add_stack(THREAD + id * 4096, &[code]);
    }
    let mut scratch = Box::new(Scratch::new());
    for id in (0..500).map(|nth| THREAD + nth * 4096) {
        let state = process.find(id).unwrap();
        assert!(revalidate(&process.image, &mut scratch, &LAYOUT, state, id));
    }
    assert_eq!(
        process.find(THREAD + 8),
        Err(PythonUnwindStatus::NO_THREAD_STATE)
    );
}

#[test]
fn a_list_of_threads_that_leads_back_to_itself_ends() {
    let mut process = Process::new();
    let thread = process.add_thread(THREAD, 0);
    process.image.put(thread, LAYOUT.thread.next, thread);
    assert_eq!(
        process.find(THREAD + 8),
        Err(PythonUnwindStatus::TOO_MANY_THREADS)
    );
}

#[test]
fn a_thread_state_that_left_the_list_is_not_believed() {
    let mut process = Process::new();
    let first = process.add_thread(THREAD, 0);
    let second = process.add_thread(THREAD + 8, 0);
    let state = process.find(THREAD).unwrap();
    assert_eq!(state.address.0, first);
    // The interpreter frees it; its memory keeps what it held.
    process.image.put(second, LAYOUT.thread.next, 0);
    let mut scratch = Box::new(Scratch::new());
    assert!(!revalidate(
        &process.image,
        &mut scratch,
        &LAYOUT,
        state,
        THREAD
    ));
}

#[test]
fn a_thread_without_frames_says_so() {
    let mut process = Process::new();
    process.add_thread(THREAD, 0);
    let sampled = process.sample(THREAD);
    assert_eq!(sampled.end, PythonUnwindStatus::NO_FRAME);
    assert!(sampled.frames.is_empty());
}

#[test]
fn the_frames_of_an_older_interpreter_stand_below() {
    let (mut process, codes) = process(2);
    let older = process.image.map(128);
    process
        .image
        .put(process.interpreter, LAYOUT.interpreter.next, older);
    let newer = std::mem::replace(&mut process.interpreter, older);
    let code = process.image.code("older", 1);
    process.add_stack(THREAD, &[code]);
    process.interpreter = newer;
    let sampled = process.sample(THREAD);
    assert_eq!(sampled.end, PythonUnwindStatus::COMPLETE);
    assert_eq!(
        symbols_of(&sampled),
        symbols(&process, [codes[1], codes[0], code])
    );
}

#[test]
fn equal_stacks_hash_alike_and_others_do_not() {
    let (process, codes) = process(20);
    let again = process.sample(THREAD).hash;
    assert_eq!(process.sample(THREAD).hash, again);
    let mut other = process;
    other.add_stack(THREAD + 1, &codes[..19]);
    assert_ne!(other.sample(THREAD + 1).hash, again);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the memory holds, a sample ends, within the reads that its limits allow.
    #[test]
    fn random_bytes_end(
        bytes in proptest::collection::vec(any::<u8>(), 4096),
        pointers in proptest::collection::vec((0_u64..512, 0_u64..4096), 0..300),
    ) {
        let mut image = Image::new();
        let start = image.map(4096);
        image.write(start, &bytes);
        // Words that point back into the image make chains that random bytes never would.
        for (word, target) in pointers {
            image.write(start + word * 8, &(start + (target & !7)).to_ne_bytes());
        }
        for thread_id in [0, u64::from_ne_bytes(bytes[..8].try_into().unwrap())] {
            let sampled = sample(&image, start, thread_id);
            prop_assert!(sampled.frames.len() <= MAX_FRAMES);
            prop_assert!(sampled.end != PythonUnwindStatus(0));
        }
    }

    /// A stack with random words written over it ends, too.
    #[test]
    fn corrupted_stacks_end(
        depth in 1_u32..600,
        writes in proptest::collection::vec((any::<u16>(), any::<u64>(), any::<bool>()), 1..40),
    ) {
        let (mut process, _) = process(depth);
        let start = 0x5555_0000_0000_u64;
        for (place, value, is_near) in writes {
            let address = start + u64::from(place) * 8;
            let value = if is_near { start + value % (1 << 19) } else { value };
            process.image.map_at(address, 8);
            process.image.write(address, &value.to_ne_bytes());
        }
        let sampled = process.sample(THREAD);
        prop_assert!(sampled.frames.len() <= MAX_FRAMES);
    }
}
