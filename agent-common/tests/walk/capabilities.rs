//! What only some versions have: copies of the bytecode, names that are bytes, and attributes
//! at various places.

use agent_common::{
    layout::{
        CodeLayout, FrameLayout, InstanceStyle, KeysStyle, Layout, ObjectLayout, RunStyle,
        TextLayout, TextStyle, ThreadLayout,
    },
    limits::TEXT_BYTES,
    memory::{Fault, UserAddr},
    python::{AttributeName, Attributes, MAX_ATTRIBUTES, PythonWalk, locate_text},
    record::{FrameKind, PythonUnwindStatus, Text},
    scratch::Scratch,
};

use crate::{
    THREAD,
    image::{Image, LAYOUT, Process, unwind},
};

/// As free-threaded builds from 3.14 on have it.
const WITH_COPIES: Layout = Layout {
    frame: FrameLayout {
        bytes: 80,
        bytecode_copy: 72,
        ..LAYOUT.frame
    },
    code: CodeLayout {
        bytecode_copies: 184,
        ..LAYOUT.code
    },
    ..LAYOUT
};

/// The offsets of a walk's frames, leaf first, and where it ended.
fn offsets(process: &Process, layout: &Layout) -> (Vec<i32>, PythonUnwindStatus) {
    let mut walk = Box::new(PythonWalk::new());
    let end = unwind(
        &process.image,
        layout,
        process.interpreters_head,
        THREAD,
        &mut walk,
    );
    let frames = &walk.stack.frames[..usize::from(walk.stack.shape().frame_count)];
    assert!(
        frames
            .iter()
            .all(|frame| frame.kind == FrameKind::UNRESOLVED)
    );
    let offsets = frames
        .iter()
        .map(|frame| frame.instruction_offset.cast_signed());
    (offsets.collect(), end)
}

/// A thread with one frame that runs its code's copy with this index, 12 bytes from its start; and
/// the code object.
fn with_copy(copy: u32) -> (Process, u64) {
    let mut process = Process::new();
    let image = &mut process.image;
    let code = image.code("f", 1);
    let (copies, bytecode) = (image.map(8 + 3 * 8), image.map(64));
    image.put(copies, 0, 3);
    image.put(copies, 8, code + u64::from(LAYOUT.code.bytecode));
    image.put(copies, 8 + 2 * 8, bytecode);
    image.put(code, WITH_COPIES.code.bytecode_copies, copies);
    let frame = image.frame(code, 0);
    let start = if copy == 0 {
        code + u64::from(LAYOUT.code.bytecode)
    } else {
        bytecode
    };
    image.put(frame, LAYOUT.frame.instruction, start + 12);
    let place = UserAddr(frame).field(WITH_COPIES.frame.bytecode_copy);
    image.write(place.0, &copy.to_ne_bytes());
    process.add_thread(THREAD, frame);
    (process, code)
}

#[test]
fn the_offset_is_that_in_the_copy_that_runs() {
    for copy in [0, 2] {
        let (process, _) = with_copy(copy);
        assert_eq!(
            offsets(&process, &WITH_COPIES),
            (vec![12], PythonUnwindStatus::COMPLETE)
        );
    }
    // Without the capability it would be the distance to another object.
    let (process, _) = with_copy(2);
    assert_ne!(offsets(&process, &LAYOUT).0, [12]);
}

#[test]
fn copies_that_cannot_be_read_end_the_walk() {
    let (mut process, code) = with_copy(2);
    process
        .image
        .put(code, WITH_COPIES.code.bytecode_copies, 4096);
    assert_eq!(
        offsets(&process, &WITH_COPIES),
        (vec![], PythonUnwindStatus::FRAME_FAULT)
    );
    let (process, _) = with_copy(u32::MAX);
    assert_eq!(
        offsets(&process, &WITH_COPIES).1,
        PythonUnwindStatus::FRAME_FAULT
    );
}

/// As 2.7 has it.
const BYTES: TextLayout = TextLayout {
    bytes: 24,
    length: 16,
    hash: 24,
    state: 16,
    state_mask: 0,
    state_bits: 1 << LAYOUT.text.kind_bit | 1 << LAYOUT.text.compact_bit,
    ascii_data: 36,
    compact_data: 36,
    bytes_data: 36,
    style: TextStyle::BYTES,
    ..LAYOUT.text
};

#[test]
fn a_name_of_bytes_has_no_state_to_look_at() {
    let mut image = Image::new();
    let mut scratch = Box::new(Scratch::new());
    for (length, truncated) in [(0, 0), (5, 0), (TEXT_BYTES, 0), (TEXT_BYTES + 1, 1)] {
        let object = image.map(36 + length as u64);
        // Were there a state, this would be one of no string.
        image.put(object, 24, u64::MAX);
        image.put(object, BYTES.length, length as u64);
        let (data, text) = locate_text(&image, &mut scratch, &BYTES, UserAddr(object)).unwrap();
        assert_eq!(data, UserAddr(object + 36));
        let bytes = length.min(TEXT_BYTES) as u16;
        let kind = Text::BYTES;
        assert_eq!(
            text,
            Text {
                kind,
                truncated,
                bytes
            }
        );
        let unicode = locate_text(&image, &mut scratch, &LAYOUT.text, UserAddr(object));
        assert_eq!(unicode, Err(Fault));
    }
}

/// What an object's attribute `_name` is.
fn name_of(image: &Image, object: &ObjectLayout, address: u64) -> Result<Option<u64>, Fault> {
    const NAME: AttributeName = AttributeName::new("_name");
    let layout = Layout {
        object: *object,
        ..LAYOUT
    };
    let mut scratch = Box::new(Scratch::new());
    let mut attributes = Attributes::new();
    attributes.begin(image, &mut scratch, &layout, UserAddr(address))?;
    for _ in 0..MAX_ATTRIBUTES {
        if let Some(value) = attributes.step(image, &mut scratch, &layout, NAME)? {
            return Ok(Some(value.0));
        }
    }
    Ok(None)
}

/// Keys of `a` and `_name` as 3.11 and later have them, each with a value.
fn keys(image: &mut Image, values: [u64; 2]) -> u64 {
    let keys = image.map(32 + 8 + 2 * 16);
    // The logarithms of the number of indices and of their bytes, and names only.
    image.write(keys + 8, &[3, 3, 1]);
    image.put(keys, 24, 2);
    for (nth, (name, value)) in ["a", "_name"].into_iter().zip(values).enumerate() {
        let name = image.text(name);
        image.put(keys + 32 + 8 + 16 * nth as u64, 0, name);
        image.put(keys + 32 + 8 + 16 * nth as u64, 8, value);
    }
    keys
}

/// The address of an object whose class has these keys, with room before it and behind it.
fn object(image: &mut Image, keys: u64) -> u64 {
    let (class, object) = (image.map(1024), image.map(128) + 64);
    image.put(class, LAYOUT.object.class_basic_size, 16);
    image.put(class, LAYOUT.object.class_cached_keys, keys);
    image.put(object, LAYOUT.object.class, class);
    object
}

#[test]
fn the_pointer_to_a_dictionary_stands_where_the_layout_says() {
    for before_object in [8, 24] {
        for instance in [
            InstanceStyle::VALUES_AND_DICT,
            InstanceStyle::VALUES_OR_DICT,
            InstanceStyle::INLINE_VALUES,
        ] {
            let layout = ObjectLayout {
                before_object,
                instance,
                keys: KeysStyle::LOG2,
                ..LAYOUT.object
            };
            let mut image = Image::new();
            let keys = keys(&mut image, [1, 77]);
            let object = object(&mut image, 0);
            let dictionary = image.map(64);
            image.put(dictionary, layout.dict_keys, keys);
            image.put(object - u64::from(before_object), 0, dictionary);
            assert_eq!(name_of(&image, &layout, object), Ok(Some(77)));

            let elsewhere = ObjectLayout {
                before_object: 32,
                ..layout
            };
            assert_ne!(name_of(&image, &elsewhere, object), Ok(Some(77)));
        }
    }
}

#[test]
fn values_without_a_dictionary_have_their_names_in_the_class() {
    let mut image = Image::new();
    let keys = keys(&mut image, [0, 0]);
    let values = image.map(64);
    image.put(values, 8, 77);

    // 3.11: a pointer to the values before that to the dictionary.
    let layout = ObjectLayout {
        before_object: 24,
        instance: InstanceStyle::VALUES_AND_DICT,
        ..LAYOUT.object
    };
    let first = object(&mut image, keys);
    image.put(first - 32, 0, values);
    assert_eq!(name_of(&image, &layout, first), Ok(Some(77)));

    // 3.12: in the place of the dictionary, marked by an odd number.
    let layout = ObjectLayout {
        instance: InstanceStyle::VALUES_OR_DICT,
        ..layout
    };
    let second = object(&mut image, keys);
    image.put(second - 24, 0, values - 1);
    assert_eq!(name_of(&image, &layout, second), Ok(Some(77)));

    // 3.13 and later: behind the object, after a head.
    let layout = ObjectLayout {
        instance: InstanceStyle::INLINE_VALUES,
        values_head: 8,
        ..layout
    };
    let third = object(&mut image, keys);
    image.put(third + 16, 8 + 8, 77);
    assert_eq!(name_of(&image, &layout, third), Ok(Some(77)));
}

#[test]
fn an_object_that_is_opaque_or_has_no_attributes_is_a_fault() {
    let mut image = Image::new();
    let keys = keys(&mut image, [1, 77]);
    let object = object(&mut image, keys);
    for instance in [InstanceStyle::OPAQUE, InstanceStyle(99)] {
        let layout = ObjectLayout {
            instance,
            ..LAYOUT.object
        };
        assert_eq!(name_of(&image, &layout, object), Err(Fault));
    }
    for address in [0, 1, object + 4, u64::MAX - 7] {
        assert_eq!(name_of(&image, &LAYOUT.object, address), Err(Fault));
    }
}

/// As 3.11 and 3.12 have it.
const LINKED: Layout = Layout {
    thread: ThreadLayout {
        cframe_previous: 8,
        ..LAYOUT.thread
    },
    ..LAYOUT
};

/// As 3.11 has it.
const MARKED: Layout = Layout {
    frame: FrameLayout {
        bytes: 80,
        entry: 72,
        run_style: RunStyle::MARKED,
        ..LAYOUT.frame
    },
    ..LINKED
};

#[test]
fn a_generator_that_hands_an_exception_on_is_in_the_run_of_its_caller() {
    const GENERATOR: u8 = 1;
    let mut process = Process::new();
    let image = &mut process.image;
    let code = image.code("f", 1);
    // All but `called` have begun a loop, `waiting` one that it has left since.
    let [root, main, called, waiting, inner] = [(); 5].map(|()| image.map(96));
    let frames = [
        (main, 0, 0, 1),
        (called, main, 0, 0),
        (waiting, called, GENERATOR, 1),
        (inner, waiting, GENERATOR, 1),
    ];
    for (frame, previous, owner, entry) in frames {
        image.frame_at(frame, code, previous, 4, owner);
        image.write(frame + u64::from(MARKED.frame.entry), &[entry]);
    }
    let thread = process.add_thread(THREAD, inner);
    let image = &mut process.image;
    let newest = image.map(16);
    let outer = image.map(16);
    let links = [(newest, inner, outer), (outer, waiting, root)];
    for (cframe, frame, previous) in links {
        image.put(cframe, MARKED.thread.cframe_current_frame, frame);
        image.put(cframe, MARKED.thread.cframe_previous, previous);
    }
    image.put(thread, MARKED.thread.frame, newest);

    let mut walk = Box::new(PythonWalk::new());
    let head = process.interpreters_head;
    let end = unwind(&process.image, &MARKED, head, THREAD, &mut walk);
    assert_eq!(end, PythonUnwindStatus::COMPLETE);
    let runs: Vec<_> = (0..walk.runs.count())
        .map(|nth| walk.runs.get(nth))
        .map(|run| (run.address, run.depth))
        .collect();
    assert_eq!(runs, [(newest, 1), (outer, 4)]);
}

/// A thread whose newest evaluation loop has set this frame, and the one that called it none or a
/// frame of its own.
fn with_loops(newest: u64, has_caller: bool) -> Process {
    let mut process = Process::new();
    let image = &mut process.image;
    let code = image.code("f", 1);
    let frame = image.frame(code, 0);
    let outer = image.map(16);
    image.put(outer, 0, if has_caller { frame } else { 0 });
    let thread = process.add_thread(THREAD, newest);
    let cframe = process.image.map(16);
    process.image.put(cframe, 0, newest);
    process.image.put(cframe, 8, outer);
    process.image.put(thread, LINKED.thread.frame, cframe);
    process
}

#[test]
fn a_loop_that_has_set_no_frame_yet_is_left_out() {
    // What stood on the stack before: nothing, no address of a structure, one that is not mapped.
    for newest in [0, 7, 0x1000] {
        let process = with_loops(newest, true);
        assert_eq!(
            offsets(&process, &LINKED),
            (vec![4], PythonUnwindStatus::COMPLETE),
            "{newest:#x}"
        );
    }
}

#[test]
fn without_a_calling_loop_the_first_status_counts() {
    for (newest, status) in [
        (0, PythonUnwindStatus::NO_FRAME),
        (7, PythonUnwindStatus::BAD_POINTER),
        (0x1000, PythonUnwindStatus::FRAME_FAULT),
    ] {
        let process = with_loops(newest, false);
        assert_eq!(offsets(&process, &LINKED), (vec![], status), "{newest:#x}");
    }
}
