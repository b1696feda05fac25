use super::{CONDITIONS_BYTES, GilLocation, GilWords, MAX_GILS, WordRange};
use crate::python::versions::SUPPORTED;
use agent_common::{
    layout::{ABSENT, GilStyle},
    memory::{Fault, UserAddr, UserMemory},
};
use std::collections::BTreeMap;

/// Memory with these words and nothing else.
struct Words(BTreeMap<u64, u64>);

impl UserMemory for Words {
    unsafe fn copy(&self, address: UserAddr, into: *mut u8, bytes: u32) -> Result<(), Fault> {
        assert_eq!(bytes, 8);
        let word = self.0.get(&address.0).ok_or(Fault)?;
        // SAFETY: the caller guarantees room for these eight bytes.
        unsafe { into.copy_from_nonoverlapping(word.to_le_bytes().as_ptr(), 8) };
        Ok(())
    }
}

fn words(location: GilLocation, memory: &[(u64, u64)]) -> GilWords {
    location.words(&Words(memory.iter().copied().collect()))
}

const INTERPRETERS: GilLocation = GilLocation::Interpreters {
    head: 0x1000,
    next: 0,
    gil: 16,
    conditions: 32,
};

#[test]
fn the_gil_in_the_runtime_needs_no_memory() {
    let words = words(GilLocation::in_runtime(0x5008).loaded_at(0x10_0000), &[]);
    let conditions = 0x10_5000 + 32;
    assert!(!words.contains(conditions - 4));
    assert!(words.contains(conditions));
    assert!(words.contains(conditions + 44));
    // The last word of the last mutex.
    assert!(words.contains(conditions + CONDITIONS_BYTES - 4));
    assert!(!words.contains(conditions + CONDITIONS_BYTES));
    assert!(!words.contains(0));
}

#[test]
fn single_variables_are_ranges_of_their_own() {
    let range = |start, bytes| WordRange { start, bytes };
    let variables = [range(0x100, 48), range(0x200, 40), range(0, 0), range(0, 0)];
    let words = words(GilLocation::Variables(variables).loaded_at(0x1000), &[]);
    for (word, is_gil) in [
        (0x1100, true),
        (0x112c, true),
        (0x1130, false),
        (0x1200, true),
        (0x1228, false),
        (0, false),
        (0x1000, false),
    ] {
        assert_eq!(words.contains(word), is_gil, "{word:#x}");
    }
}

#[test]
fn a_lock_is_where_its_pointer_points() {
    let location = GilLocation::Lock(0x800).loaded_at(0x10_0000);
    let pointer = 0x10_0800;
    let there = words(location, &[(pointer, 0xa000)]);
    assert!(there.contains(0xa000) && there.contains(0xa01c));
    assert!(!there.contains(0xa020) && !there.contains(pointer));
    // Before the first thread, and where memory cannot be read.
    assert!(words(location, &[(pointer, 0)]).is_empty());
    assert!(words(location, &[]).is_empty());
}

#[test]
fn every_gil_of_several_interpreters_counts_once() {
    let memory = [
        (0x1000, 0x2000),
        (0x2000, 0x3000),
        (0x2010, 0x7000),
        (0x3000, 0x4000),
        (0x3010, 0x8000),
        // The last one shares the GIL of the first.
        (0x4000, 0),
        (0x4010, 0x7000),
    ];
    let words = words(INTERPRETERS, &memory);
    assert_eq!(words.ranges.len(), 2);
    assert!(words.contains(0x7000 + 32 + 40) && words.contains(0x8000 + 32 + 40));
    assert!(!words.contains(0x7000 + 24) && !words.contains(0x2010));
}

#[test]
fn a_circle_of_interpreters_and_invalid_pointers_end() {
    let circle: Vec<_> = [(0x1000, 0x2000), (0x2000, 0x2000), (0x2010, 0x7000)].into();
    assert_eq!(words(INTERPRETERS, &circle).ranges.len(), 1);
    let odd = [(0x1000, 0x2001)];
    assert!(words(INTERPRETERS, &odd).is_empty());
    // The GIL of the second cannot be read.
    let torn = [(0x1000, 0x2000), (0x2000, 0x3000), (0x2010, 0x7000)];
    assert_eq!(words(INTERPRETERS, &torn).ranges.len(), 1);
}

#[test]
fn so_many_gils_are_read_at_most() {
    let interpreter = |nth: u64| 0x10_0000 + nth * 0x100;
    let mut memory = vec![(0x1000, interpreter(0))];
    for nth in 0..2 * MAX_GILS as u64 {
        memory.push((interpreter(nth), interpreter(nth + 1)));
        memory.push((interpreter(nth) + 16, 0x100_0000 + nth * 0x100));
    }
    assert_eq!(words(INTERPRETERS, &memory).ranges.len(), MAX_GILS);
}

#[test]
fn each_layout_with_a_flag_in_its_threads_has_a_pointer_to_the_gil() {
    for series in SUPPORTED {
        for layout in [Some(series.layout), series.free_threaded]
            .into_iter()
            .flatten()
        {
            let interpreter = &layout.interpreter;
            let has_pointer = interpreter.gil_style == GilStyle::IN_THREAD;
            assert_eq!(interpreter.gil != ABSENT, has_pointer, "3.{}", series.minor);
            let location = GilLocation::of_interpreters(0x1000, interpreter, false);
            assert_eq!(location != GilLocation::Unknown, has_pointer);
        }
    }
}

#[test]
fn the_gil_of_a_free_threaded_build_has_one_field_more() {
    let layout = SUPPORTED.last().unwrap().layout.interpreter;
    let words = |is_free_threaded, is_enabled| {
        let gil = (0x2000 + u64::from(layout.gil), 0x7000);
        words(
            GilLocation::of_interpreters(0x1000, &layout, is_free_threaded),
            &[(0x1000, 0x2000), gil, (0x7000, is_enabled)],
        )
    };
    assert!(words(false, 0).contains(0x7000 + 32));
    assert!(!words(true, 1).contains(0x7000 + 32));
    assert!(words(true, 1).contains(0x7000 + 40 + CONDITIONS_BYTES - 4));
    // It is there, and nobody takes it.
    assert!(words(true, 0).is_empty());
}
