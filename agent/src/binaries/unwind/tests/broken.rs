//! Tests with malformed files, and with files that exceed limits.

use agent_common::unwind::Rule;
use proptest::prelude::{any, prop, proptest};

use super::{
    START, check, compiled, evaluation_loop,
    image::{CODE, ENTRY, Image},
    rows, rules_of,
};
use crate::binaries::{
    elf::Elf,
    unwind::{compile, functions, reason::UnknownReason},
};

#[test]
fn functions_outside_the_code_are_skipped() {
    let mut image = Image::default();
    let common = image.common("zR", &ENTRY);
    image.function(common, CODE.wrapping_neg(), 16, &[]);
    image.function(common, 1 << 30, 16, &[]);
    image.function(common, 0x40, 1 << 40, &[]);
    let made = compiled(&image);
    check(&made);
    assert_eq!(rows(&made), [(0x40, START), (1 << 30, Rule::UNKNOWN)]);
    assert_eq!(made.unknown().get(UnknownReason::NoCode), 2);
}

#[test]
fn malformed_entries_do_not_hide_others() {
    let mut image = Image::default();
    let common = image.common("zR", &ENTRY);
    let strange = image.common("z?", &ENTRY);
    let large = image.common("zR", &[0; 2000]);
    image.function(strange, 0, 16, &[]);
    image.function(large, 16, 16, &[]);
    image.function(common + 3, 32, 16, &[]);
    image.function(common, 48, 16, &[]);
    let made = compiled(&image);
    assert_eq!(rows(&made), [(48, START), (64, Rule::UNKNOWN)]);
    assert_eq!(made.unknown().get(UnknownReason::Malformed), 3);

    // A length beyond the section ends it.
    image.frames.extend([0xf0, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5]);
    image.function(common, 0x100, 16, &[]);
    assert_eq!(rows(&compiled(&image)).len(), 2);
}

#[test]
fn states_are_saved_to_a_depth() {
    let deep = |depth: usize| {
        let mut instructions = vec![0x0a; depth];
        instructions.extend([0x0e, 16, 0x41]);
        instructions.extend(vec![0x0b; depth]);
        rules_of("zR", &instructions)
            .1
            .unknown()
            .get(UnknownReason::Malformed)
    };
    assert_eq!((deep(1), deep(7), deep(8), deep(10_000)), (0, 0, 1, 1));
}

#[test]
fn limits_are_enforced() {
    // As many functions as bytes allow, all at the same address, with a large CIE.
    let mut image = Image::default();
    let common = image.common("zR", &[&ENTRY[..], &[0x0a, 0x0b].repeat(480)].concat());
    for _ in 0..200_000 {
        image.function(common, 0, 1 << 20, &[0x0a, 0x0b].repeat(10));
    }
    let made = compiled(&image);
    assert_eq!(rows(&made), [(0, START), (1 << 20, Rule::UNKNOWN)]);

    // The same at different addresses: more than is evaluated.
    let mut image = Image::default();
    let common = image.common("zR", &[&ENTRY[..], &[0x0a, 0x0b].repeat(480)].concat());
    for start in 0..200_000 {
        image.function(common, 16 * start, 16, &[]);
    }
    let made = compiled(&image);
    check(&made);
    assert!(made.unknown().get(UnknownReason::TooMany) > 1000);

    // One function whose every byte has a row of its own.
    let mut image = Image::default();
    let common = image.common("zR", &ENTRY);
    let steps = [0x0e, 16, 0x41, 0x0e, 24, 0x41].repeat(5 << 20);
    image.function(common, 0, 1 << 30, &steps);
    let made = compiled(&image);
    assert_eq!(made.rows().len(), (8 << 20) + 1);
    assert_eq!(made.unknown().get(UnknownReason::TooMany), 1);

    // Every row with a rule of its own.
    let mut image = Image::default();
    let common = image.common("zR", &ENTRY);
    let steps: Vec<u8> = (0..100_000_u32)
        .flat_map(|step| {
            let byte = |shift: u32| (step >> shift & 0x7f) as u8;
            [0x41, 0x0e, byte(0) | 0x80, byte(7) | 0x80, byte(14)]
        })
        .collect();
    image.function(common, 0, 1 << 30, &steps);
    let made = compiled(&image);
    check(&made);
    assert!(made.unknown().get(UnknownReason::TooMany) > 30_000);
}

proptest! {
    #[test]
    fn arbitrary_headers_do_not_panic(
        changes in prop::collection::vec((0..240_usize, any::<u8>()), 1..8),
    ) {
        let mut image = Image::default();
        let common = image.common("zR", &ENTRY);
        image.function(common, 0x40, 0x40, &[0x48, 0x0e, 16]);
        let mut file = image.file();
        for (at, byte) in changes {
            file[at] = byte;
        }
        if let Ok(elf) = Elf::read(file.as_slice()) {
            let _ = functions(&elf);
            if let Ok(made) = compile(&elf, &[CODE..CODE + 0x48, 0..9].map(evaluation_loop)) {
                check(&made);
            }
        }
    }

    #[test]
    fn arbitrary_instructions_do_not_panic(
        functions in prop::collection::vec(
            (0..0x2_0000_u64, 0..0x1000_u64, prop::collection::vec(any::<u8>(), 0..40)),
            0..20
        ),
        initial in prop::collection::vec(any::<u8>(), 0..20),
        loops in prop::collection::vec((0..0x2_0000_u64, 0..0x1000_u64), 0..4),
    ) {
        let mut image = Image::default();
        let usual = image.common("zR", &ENTRY);
        let unusual = image.common("zR", &initial);
        for (nth, (start, bytes, instructions)) in functions.iter().enumerate() {
            let common = if nth % 2 == 0 { usual } else { unusual };
            image.function(common, *start, *bytes, instructions);
        }
        let loops: Vec<_> = loops
            .iter()
            .map(|(start, bytes)| evaluation_loop(CODE + start..CODE + start + bytes))
            .collect();
        let file = image.file();
        check(&compile(&Elf::read(file.as_slice()).unwrap(), &loops).unwrap());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        frames in prop::collection::vec(any::<u8>(), 0..400),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        check(&compiled(&Image { frames: frames.clone() }));
        let mut image = Image::default();
        let common = image.common("zR", &ENTRY);
        for start in 0..8 {
            image.function(common, 40 * start, 32, &frames[..frames.len().min(20)]);
        }
        for (place, byte) in changes {
            let at = place.index(image.frames.len());
            image.frames[at] = byte;
        }
        check(&compiled(&image));
        let file = image.file();
        let _ = functions(&Elf::read(file.as_slice()).unwrap()).unwrap();
    }
}
