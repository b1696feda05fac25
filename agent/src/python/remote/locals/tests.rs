//! Frames and values in made-up memory, whole and damaged.

use agent_common::{
    layout::Layout,
    maps::ThreadState,
    memory::{Fault, UserAddr, UserMemory},
};

use super::{FrameVariables, LocalsReader, MAX_FRAMES, MAX_VARIABLES, Variables};
use crate::python::{
    Version,
    variables::{VariableFacts, VariableNames},
    versions::{SUPPORTED, VersionSeries, series_of},
};

/// Where things are.
const START: u64 = 0x1_0000;
const INTERPRETER: u64 = 0x1_1000;
const THREAD: u64 = 0x1_2000;
const FRAME: u64 = 0x1_3000;
const CODE: u64 = 0x1_5000;
const OBJECTS: u64 = 0x2_0000;
const END: u64 = 0x8_0000;

/// `pthread_self()`.
const THREAD_ID: u64 = 0x7f00;

/// Most characters of a value.
const CHARACTERS: usize = 128;

/// Memory in which objects are made one after another.
#[derive(Clone)]
struct Image {
    bytes: Vec<u8>,
    next: u64,
    layout: Layout,
    facts: VariableFacts,
    meta: u64,
}

impl UserMemory for Image {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        let start = address.0.checked_sub(START).ok_or(Fault)?;
        let start = usize::try_from(start).map_err(|_| Fault)?;
        let end = start.checked_add(bytes as usize).ok_or(Fault)?;
        let found = self.bytes.get(start..end).ok_or(Fault)?;
        // SAFETY: the caller guarantees `bytes` valid bytes at `into`, which are not this image's.
        unsafe { into.copy_from_nonoverlapping(found.as_ptr(), found.len()) };
        Ok(())
    }
}

fn series() -> &'static VersionSeries {
    series_of(Version::of_series(3, 14)).unwrap()
}

impl Image {
    fn new() -> Self {
        let series = series();
        let mut image = Self {
            bytes: vec![0; usize::try_from(END - START).unwrap()],
            next: OBJECTS,
            layout: series.layout,
            facts: series.variables,
            meta: 0,
        };
        let thread = image.layout.thread;
        image.set(THREAD + u64::from(thread.interpreter), INTERPRETER);
        image.set(THREAD + u64::from(thread.thread_id), THREAD_ID);
        image.set(THREAD + u64::from(thread.frame), FRAME);
        image.meta = image.class("type", 1 << 31);
        image.set(image.meta + 8, image.meta);
        image
    }

    fn set(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let start = usize::try_from(address - START).unwrap();
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Room for so many bytes.
    fn room(&mut self, bytes: usize) -> u64 {
        let address = self.next;
        self.next += (bytes as u64).next_multiple_of(16) + 16;
        address
    }

    /// A class of the interpreter itself.
    fn class(&mut self, name: &str, flags: u64) -> u64 {
        let class = self.room(400);
        let text = self.room(name.len() + 1);
        self.put(text, name.as_bytes());
        self.set(class + 8, self.meta);
        self.set(class + 24, text);
        self.set(class + 168, 1 << 12 | flags);
        class
    }

    fn object(&mut self, class: u64, words: &[u64]) -> u64 {
        let object = self.room(16 + 8 * words.len());
        self.set(object + 8, class);
        for (nth, word) in words.iter().enumerate() {
            self.set(object + 16 + 8 * nth as u64, *word);
        }
        object
    }

    fn text(&mut self, class: u64, text: &str) -> u64 {
        // One byte a character, compact, ASCII.
        let state = 1 << 2 | 1 << 5 | 1 << 6;
        let object = self.object(class, &[text.len() as u64, 0, state, 0, 0, 0]);
        let data = self.room(text.len());
        assert!(text.len() < 24 && data > object);
        self.put(object + 40, text.as_bytes());
        object
    }

    fn tuple(&mut self, class: u64, items: &[u64]) -> u64 {
        let mut words = vec![items.len() as u64, 0];
        words.extend(items);
        self.object(class, &words)
    }

    /// A frame of a function with these variables, `arguments` of which are arguments.
    fn frame(&mut self, classes: &Classes, variables: &[(&str, u64)], arguments: u32) {
        let names: Vec<u64> = variables
            .iter()
            .map(|(name, _)| self.text(classes.text, name))
            .collect();
        let names = self.tuple(classes.tuple, &names);
        let mut kinds = vec![variables.len() as u64];
        kinds.resize(2 + variables.len().div_ceil(8), 0);
        let kinds = self.object(classes.bytes, &kinds);
        let name = self.text(classes.text, "function");
        let empty = self.object(classes.bytes, &[0, 0]);
        let (code, body) = (self.layout.code, CODE + 16);
        for (offset, value) in [
            (code.name, name),
            (code.file, name),
            (code.line_table, empty),
        ] {
            self.set(CODE + u64::from(offset), value);
        }
        let facts = self.facts;
        let half = |image: &mut Self, offset: u16, value: u32| {
            image.put(body + u64::from(offset), &value.to_le_bytes());
        };
        half(self, facts.flags, 1);
        half(self, facts.argument_count, arguments);
        let VariableNames::Together {
            names: of,
            kinds: at,
        } = facts.names
        else {
            panic!("3.14 has one tuple");
        };
        self.set(body + u64::from(of), names);
        self.set(body + u64::from(at), kinds);
        let fields = self.layout.frame;
        let bytecode = CODE + u64::from(code.bytecode);
        self.set(FRAME + u64::from(fields.code), CODE | 1);
        self.set(FRAME + u64::from(fields.instruction), bytecode);
        for (nth, (_, value)) in variables.iter().enumerate() {
            self.set(FRAME + u64::from(fields.locals) + 8 * nth as u64, *value);
        }
    }

    fn frames(&self) -> Result<Vec<FrameVariables>, Fault> {
        let mut reader = LocalsReader::new(self, &self.layout, &self.facts, CHARACTERS);
        let state = ThreadState {
            address: UserAddr(THREAD),
            interpreter: UserAddr(INTERPRETER),
        };
        reader.frames(THREAD_ID, &[state])
    }

    fn variables(&self) -> Variables {
        let frames = self.frames().unwrap();
        assert_eq!(frames.len(), 1);
        frames[0].variables.clone().unwrap()
    }

    /// The value of a variable that refers to this object.
    fn shown(&self, object: u64) -> String {
        let mut reader = LocalsReader::new(self, &self.layout, &self.facts, CHARACTERS);
        reader.values.show(object, CHARACTERS)
    }
}

/// The interpreter's own classes.
struct Classes {
    text: u64,
    bytes: u64,
    tuple: u64,
    list: u64,
    integer: u64,
    dict: u64,
    cell: u64,
}

impl Classes {
    fn new(image: &mut Image) -> Self {
        Self {
            text: image.class("str", 1 << 28),
            bytes: image.class("bytes", 1 << 27),
            tuple: image.class("tuple", 1 << 26),
            list: image.class("list", 1 << 25),
            integer: image.class("int", 1 << 24),
            dict: image.class("dict", 1 << 29),
            cell: image.class("cell", 0),
        }
    }
}

/// A function with variables of all kinds.
fn whole() -> Image {
    let mut image = Image::new();
    let classes = Classes::new(&mut image);
    let number = image.object(classes.integer, &[1 << 3, 42]);
    let text = image.text(classes.text, "it's");
    let tuple = image.tuple(classes.tuple, &[number]);
    let items = image.room(32);
    for (nth, item) in [text, tuple, number].into_iter().enumerate() {
        image.set(items + 8 * nth as u64, item);
    }
    let list = image.object(classes.list, &[3, items, 4]);
    // Two entries with keys that are strings, the first of which was removed, in a table of eight.
    let keys = image.room(32 + 8 + 16 * 5);
    image.put(keys + 8, &[3, 3, 1]);
    image.set(keys + 24, 2);
    image.set(keys + 40 + 16, text);
    image.set(keys + 40 + 24, list);
    let dict = image.object(classes.dict, &[1, 0, keys, 0]);
    let other = image.class("some.thing", 1 << 9);
    let other = image.object(other, &[]);
    let cell = image.object(classes.cell, &[number]);
    let names = [
        ("first", dict),
        ("second", list | 1),
        ("unset", 1),
        ("other", other),
        ("cell", cell),
        ("tagged", 7 << 2 | 3),
    ];
    image.frame(&classes, &names, 2);
    image
}

#[test]
fn variables_have_their_values() {
    let image = whole();
    let variables = image.variables();
    let pairs = |variables: &[super::Variable]| -> Vec<String> {
        let pairs = variables.iter();
        pairs
            .map(|it| format!("{}={}", it.name, it.value))
            .collect()
    };
    assert_eq!(
        pairs(&variables.arguments),
        [
            "first={\"it's\": [\"it's\", (42,), 42]}",
            "second=[\"it's\", (42,), 42]"
        ]
    );
    let locals = pairs(&variables.locals);
    assert!(
        locals[0].starts_with("other=<some.thing at 0x"),
        "{locals:?}"
    );
    assert!(locals[1].starts_with("cell=<cell at 0x"), "{locals:?}");
    assert_eq!(locals[2..], ["tagged=7"]);
    assert_eq!(variables.more, 0);
}

#[test]
fn frames_of_another_thread_and_circles_of_frames_are_none() {
    let mut image = whole();
    let previous = FRAME + u64::from(image.layout.frame.previous);
    image.set(previous, FRAME);
    let frames = image.frames().unwrap();
    let with_variables = frames.iter().filter(|it| it.variables.is_some());
    assert_eq!(with_variables.count(), MAX_FRAMES);
    assert!(frames.len() < 10_000);
    let mut image = whole();
    image.set(THREAD + u64::from(image.layout.thread.thread_id), 1);
    assert_eq!(image.frames(), Err(Fault));
}

#[test]
fn variables_beyond_the_limit_are_counted() {
    let mut image = Image::new();
    let classes = Classes::new(&mut image);
    let number = image.object(classes.integer, &[1]);
    let names: Vec<_> = (0..MAX_VARIABLES + 12).map(|_| ("same", number)).collect();
    image.frame(&classes, &names, 0);
    let variables = image.variables();
    assert_eq!(
        (variables.locals.len(), variables.more),
        (MAX_VARIABLES, 12)
    );
    assert_eq!(variables.locals[0].value, "0");
}

#[test]
fn a_list_in_itself_ends() {
    let mut image = Image::new();
    let classes = Classes::new(&mut image);
    let items = image.room(8);
    let list = image.object(classes.list, &[1, items, 1]);
    image.set(items, list);
    assert_eq!(image.shown(list), "[[...]]");
    // A chain of others has an end as well.
    let mut deep = list;
    for _ in 0..20 {
        let items = image.room(8);
        image.set(items, deep);
        deep = image.object(classes.list, &[1, items, 1]);
    }
    assert_eq!(image.shown(deep), "[[[[[[[...]]]]]]]");
}

#[test]
fn what_claims_to_be_endless_is_shown_by_its_class() {
    let mut image = Image::new();
    let classes = Classes::new(&mut image);
    for size in [1 << 60, u64::MAX, 1 << 43] {
        let items = image.room(8);
        for (class, words) in [
            (classes.list, vec![size, items, size]),
            (classes.list, vec![size, items, 4]),
            (classes.tuple, vec![size, 0]),
            (classes.text, vec![size, 0, 1 << 2 | 1 << 5 | 1 << 6]),
            (classes.text, vec![size, 0, 4 << 2 | 1 << 5]),
            (classes.bytes, vec![size, 0]),
            (classes.dict, vec![size, 0, items, 0]),
            (classes.dict, vec![size, 0, items, items]),
            (classes.integer, vec![size]),
        ] {
            let mut image = image.clone();
            let object = image.object(class, &words);
            // Nothing behind it can be read.
            image
                .bytes
                .truncate(usize::try_from(image.next - START).unwrap());
            let shown = image.shown(object);
            assert!(
                shown.starts_with('<') && shown.ends_with(&format!("at {object:#x}>")),
                "{words:?}: {shown}"
            );
        }
    }
}

#[test]
fn strings_that_are_none_are_shown_by_their_class() {
    let mut image = Image::new();
    let classes = Classes::new(&mut image);
    let text = image.text(classes.text, "abc");
    image.put(text + 41, &[0xff]);
    assert!(image.shown(text).starts_with("<str at 0x"));
    // A class with this name that a program has made.
    let class = image.class("str", 1 << 28 | 1 << 9);
    let text = image.text(class, "abc");
    assert!(image.shown(text).starts_with("<str at 0x"));
}

#[test]
fn damaged_memory_has_an_end() {
    let whole = whole();
    let mut random = fastrand::Rng::with_seed(1);
    let mut next = || random.u64(..);
    for _ in 0..500 {
        let mut image = whole.clone();
        for _ in 0..20 {
            let place = match next() % 4 {
                0 => FRAME + next() % 0x100,
                1 => CODE + next() % 0x100,
                _ => OBJECTS + next() % (whole.next - OBJECTS),
            };
            let word = match next() % 4 {
                0 => next(),
                1 => next() % 64,
                _ => OBJECTS + next() % (whole.next - OBJECTS) / 8 * 8,
            };
            image.set(place / 8 * 8, word);
        }
        let frames = image.frames().unwrap_or_default();
        for frame in frames {
            let variables = frame.variables.unwrap_or_default();
            for variable in variables.arguments.iter().chain(&variables.locals) {
                let count = variable.value.chars().count();
                assert!(count <= CHARACTERS + 1, "{variable:?}");
                assert!(!variable.value.contains(char::is_control), "{variable:?}");
            }
        }
    }
}

/// Memory that says the same everywhere, with the layouts of all versions.
#[test]
fn any_memory_is_read_to_an_end() {
    for series in SUPPORTED {
        for word in [0, 1, 0x1_0000, 0x1_0008, u64::MAX] {
            let mut image = Image::new();
            let words = image.bytes.chunks_exact_mut(8);
            words.for_each(|it| it.copy_from_slice(&word.to_le_bytes()));
            image.layout = series.layout;
            image.facts = series.variables;
            assert!(image.shown(OBJECTS).len() < 8 * CHARACTERS);
            let _ = image.frames();
        }
    }
}
