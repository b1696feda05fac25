//! Tests with generated tables of Go functions.

use agent_common::unwind::{CfaRule, Rule, RuleFlags, Saved};
use proptest::prelude::{any, prop, proptest};

use super::{
    check, compiled,
    image::{CODE, Image},
    rows,
};
use crate::binaries::{elf::Elf, unwind::reason::UnknownReason};

/// Flags of a function.
const OUTERMOST: u8 = 1;
const SETS_STACK_POINTER: u8 = 2;
const ASSEMBLY: u8 = 4;

/// A function: where it starts, its name and flags, and up to which distance from its start it has
/// how many bytes of the stack in use.
type Function<'a> = (u32, &'a str, u8, &'a [(u32, i32)]);

/// The table of these functions as Go since 1.20 has it, the last of which ends at `end`.
fn table(functions: &[Function<'_>], end: u32) -> Vec<u8> {
    let mut names = vec![0];
    let mut sizes = vec![0];
    let mut list = Vec::new();
    let mut descriptions = Vec::new();
    let descriptions_start = (functions.len() + 1) * 8;
    for (start, name, flags, steps) in functions {
        let at = u32::try_from(descriptions_start + descriptions.len()).unwrap();
        list.extend([start.to_le_bytes(), at.to_le_bytes()].concat());
        let name_at = u32::try_from(names.len()).unwrap();
        names.extend(name.as_bytes());
        names.push(0);
        let sizes_at = u32::try_from(sizes.len()).unwrap();
        let (mut before, mut from) = (-1_i32, 0);
        for (to, bytes) in *steps {
            let difference = bytes - before;
            number(
                &mut sizes,
                (difference << 1 ^ difference >> 31).cast_unsigned(),
            );
            number(&mut sizes, to - from);
            (before, from) = (*bytes, *to);
        }
        sizes.push(0);
        for field in [*start, name_at, 0, 0, sizes_at, 0, 0, 0, 0, 0] {
            descriptions.extend(field.to_le_bytes());
        }
        descriptions.extend([0, *flags, 0, 0]);
    }
    list.extend([end.to_le_bytes(), [0; 4]].concat());
    let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    let names_at = 72;
    let sizes_at = names_at + names.len();
    let functions_at = sizes_at + sizes.len();
    let text = usize::try_from(CODE).unwrap();
    for field in [
        functions.len(),
        0,
        text,
        names_at,
        0,
        0,
        sizes_at,
        functions_at,
    ] {
        table.extend((field as u64).to_le_bytes());
    }
    [table, names, sizes, list, descriptions].concat()
}

/// Appends a number, seven bits to a byte.
fn number(into: &mut Vec<u8>, mut number: u32) {
    loop {
        let [byte, ..] = (number & 0x7f).to_le_bytes();
        number >>= 7;
        into.push(byte | u8::from(number > 0) << 7);
        if number == 0 {
            break;
        }
    }
}

fn image(functions: &[Function<'_>], end: u32) -> Image {
    Image {
        frames: table(functions, end),
    }
}

/// The rule where so many bytes of the stack are in use.
fn used(bytes: i32) -> Rule {
    Rule {
        cfa: CfaRule::REGISTER,
        register: 7,
        offset: bytes + 8,
        return_address: Saved::at(-1),
        base: Saved::LOST,
        ..Rule::UNKNOWN
    }
}

/// The same once the frame pointer is saved.
fn saved(bytes: i32) -> Rule {
    Rule {
        frame_pointer: Saved::at(-2),
        ..used(bytes)
    }
}

fn only(cfa: CfaRule) -> Rule {
    Rule {
        cfa,
        ..Rule::UNKNOWN
    }
}

#[test]
fn rows_are_those_of_the_functions() {
    let functions: [Function<'_>; 4] = [
        // The frame pointer is stored by five bytes, eight, and pushed.
        (
            0x10,
            "one",
            0,
            &[(4, 0), (0x20, 0x30), (0x21, 0), (0x30, 0x30)],
        ),
        (0x40, "two", 0, &[(4, 0), (0x20, 0x300), (0x21, 0)]),
        (0x80, "three", 0, &[(1, 0), (8, 8), (0x20, 0x40)]),
        // Without stack sizes.
        (0xa0, "four", 0, &[]),
    ];
    let made = compiled(&image(&functions, 0xb0));
    check(&made);
    let expected = [
        (0x10, used(0)),
        (0x14, used(0x30)),
        (0x19, saved(0x30)),
        (0x30, used(0)),
        (0x31, saved(0x30)),
        (0x40, used(0)),
        (0x44, used(0x300)),
        (0x4c, saved(0x300)),
        (0x60, used(0)),
        (0x61, Rule::UNKNOWN),
        (0x80, used(0)),
        (0x81, saved(8)),
        (0x88, saved(0x40)),
        (0xa0, Rule::UNKNOWN),
    ];
    assert_eq!(rows(&made), expected);
}

#[test]
fn special_functions_end_stacks_or_switch_them() {
    let frame: &[(u32, i32)] = &[(4, 0), (0x20, 0x30)];
    let functions: [Function<'_>; 7] = [
        (0x00, "runtime.mstart", OUTERMOST | ASSEMBLY, frame),
        (0x20, "runtime.mcall", SETS_STACK_POINTER | ASSEMBLY, frame),
        // A compiled wrapper of the same name.
        (0x40, "runtime.mcall", 0, &[(0x20, 0)]),
        (0x60, "runtime.sigtramp", OUTERMOST | ASSEMBLY, &[(0x20, 0)]),
        (0x80, "runtime.sigreturn", ASSEMBLY, &[(0x20, 0)]),
        (0xa0, "gogo", SETS_STACK_POINTER | ASSEMBLY, &[(0x20, 0)]),
        // The file does not hold its code.
        (0xc0, "assembly", ASSEMBLY, frame),
    ];
    let made = compiled(&image(&functions, 0xe0));
    check(&made);
    let by_frame_pointer = Rule {
        register: 6,
        flags: RuleFlags::SWITCHES,
        ..saved(8)
    };
    let expected = [
        (0x00, only(CfaRule::END)),
        (0x40, used(0)),
        // With the byte before it.
        (0x7f, only(CfaRule::SIGNAL)),
        (0xa0, by_frame_pointer),
        (0xc0, used(0)),
        (0xc4, used(0x30)),
        (0xe0, Rule::UNKNOWN),
    ];
    assert_eq!(rows(&made), expected);
}

#[test]
fn older_formats_have_the_same_functions() {
    let frame: &[(u32, i32)] = &[(4, 0), (0x20, 0x30)];
    let functions: [Function<'_>; 2] = [(0, "one", 0, frame), (0x20, "two", OUTERMOST, frame)];
    let newest = table(&functions, 0x40);
    let of = |frames: &[u8]| {
        let frames = frames.to_vec();
        let file = Image { frames }.file();
        let elf = Elf::read(file.as_slice()).unwrap();
        let table = elf.go_table().unwrap()?;
        let found: Vec<_> = table
            .functions()
            .map(|it| {
                let sizes: Vec<_> = it.stack_sizes().collect();
                (it.start, it.end, it.name(), it.is_outermost(), sizes)
            })
            .collect();
        Some(found)
    };
    let expected = of(&newest).unwrap();
    assert_eq!(expected.len(), 2);
    assert_eq!(expected[1].2, b"two");

    // The flags are where the line of the start is since.
    let mut older = newest.clone();
    older[0] = 0xf0;
    let end = older.len();
    older[end - 7] = OUTERMOST;
    assert_eq!(of(&older).unwrap(), expected);

    // Addresses instead of distances; the same without offsets and flags.
    for (magic, has_offsets) in [(0xfa, true), (0xfb, false)] {
        let old = old_table(magic, has_offsets);
        let found = of(&old).unwrap();
        let unmarked = |it: &(u64, u64, Vec<u8>, bool, _)| (it.0, it.1, it.2.clone());
        assert!(found.iter().map(unmarked).eq(expected.iter().map(unmarked)));
        assert!(
            found
                .iter()
                .zip(&expected)
                .all(|(it, other)| it.4 == other.4)
        );
        assert_eq!(found[1].3, has_offsets);
    }
    for (at, byte) in [(0, 0xf2), (4, 1), (6, 3), (7, 4)] {
        let mut strange = newest.clone();
        strange[at] = byte;
        assert_eq!(of(&strange), None);
    }
}

/// The table of [`older_formats_have_the_same_functions`] as older versions have it.
fn old_table(magic: u8, has_offsets: bool) -> Vec<u8> {
    let head_bytes: u64 = if has_offsets { 64 } else { 16 };
    let base = if has_offsets { head_bytes } else { 0 };
    // The list, then two descriptions of 48 bytes, then the sizes, then the names.
    let description = |nth: u64| head_bytes + 40 + 48 * nth;
    let (sizes, names) = (description(2), description(2) + 8);
    let mut table = vec![magic, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    table.extend(2_u64.to_le_bytes());
    if has_offsets {
        for field in [0, names, 0, 0, sizes, head_bytes] {
            table.extend(field.to_le_bytes());
        }
    }
    for nth in 0..2 {
        table.extend((CODE + 0x20 * nth).to_le_bytes());
        table.extend((description(nth) - base).to_le_bytes());
    }
    table.extend((CODE + 0x40).to_le_bytes());
    let relative = |to: u64| u32::try_from(if has_offsets { 0 } else { to }).unwrap();
    for nth in 0..2_u32 {
        table.extend((CODE + 0x20 * u64::from(nth)).to_le_bytes());
        let name = relative(names) + 1 + 4 * nth;
        for field in [name, 0, 0, relative(sizes) + 1, 0, 0, 0, 0] {
            table.extend(field.to_le_bytes());
        }
        table.extend([0, u8::from(nth == 1), 0, 0, 0, 0, 0, 0]);
    }
    table.extend([0, 2, 4, 0x60, 0x1c, 0, 0, 0]);
    table.extend(b"\0one\0two\0");
    table
}

#[test]
fn limits_are_enforced() {
    // Each byte of each function has a size of its own.
    let steps: Vec<(u32, i32)> = (0..20_000)
        .map(|nth: u16| (u32::from(nth) + 1, i32::from(nth % 2) * 64))
        .collect();
    let functions: Vec<Function<'_>> = (0..600).map(|nth| (20_000 * nth, "", 0, &*steps)).collect();
    let made = compiled(&image(&functions, 12_000_000));
    check(&made);
    assert!(made.unknown().get(UnknownReason::TooMany) > 10);
    // Between functions there are gaps.
    assert!(made.rows().len() <= (8 << 20) + 2 * functions.len());

    // The same again and again, at addresses that were there before.
    let functions: Vec<Function<'_>> = (0..600)
        .flat_map(|_| [(0, "", 0, &*steps), (20_000, "", 0, &[][..])])
        .collect();
    let made = compiled(&image(&functions, 40_000));
    check(&made);
    assert!(made.rows().len() <= 20_002);
}

proptest! {
    #[test]
    fn arbitrary_tables_do_not_panic(
        functions in prop::collection::vec(
            (0..0x100_u32, any::<u8>(), prop::collection::vec((0..9_u32, -9..0x200_i32), 0..5)),
            0..20,
        ),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        layout in prop::sample::select(vec![0xf1, 0xf0, 0xfa, 0xfb]),
    ) {
        let names = ["runtime.mcall", "runtime.sigreturn", "other"];
        let steps: Vec<Vec<_>> = functions
            .iter()
            .map(|(_, _, steps)| {
                let ends = steps.iter().scan(0, |end, (step, bytes)| {
                    *end += step;
                    Some((*end, *bytes))
                });
                ends.collect()
            })
            .collect();
        let functions: Vec<Function<'_>> = functions
            .iter()
            .zip(&steps)
            .map(|((start, flags, _), steps)| {
                (*start, names[*flags as usize % 3], *flags, steps.as_slice())
            })
            .collect();
        let mut image = image(&functions, 0x100);
        image.frames[0] = layout;
        for (place, byte) in changes {
            let at = place.index(image.frames.len());
            image.frames[at] = byte;
        }
        check(&compiled(&image));
    }
}
