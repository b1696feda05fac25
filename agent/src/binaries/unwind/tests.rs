//! Tests with generated files and with this test program.

mod broken;
mod go;
mod image;

use std::{fs, ops::Range, os::unix::fs::FileExt as _, time::Instant};

use agent_common::unwind::{CfaRule, Rule, RuleFlags, RuleSearch, Saved};
use xtask::tools;

use super::{
    CodeMark, CodeRole, Compiled, SharedRules, compile, functions, pack, reason::UnknownReason,
};
use crate::binaries::elf::Elf;
use image::{CODE, ENTRY, Image};

/// The rule at the start of a function of [`ENTRY`].
const START: Rule = Rule {
    cfa: CfaRule::REGISTER,
    register: 7,
    offset: 8,
    return_address: Saved::at(-1),
    ..Rule::UNKNOWN
};

fn compiled(image: &Image) -> Compiled {
    compile(&Elf::read(image.file().as_slice()).unwrap(), &[]).unwrap()
}

/// The rows, with distances instead of addresses.
fn rows(compiled: &Compiled) -> Vec<(u64, Rule)> {
    let rows = compiled.rows();
    rows.map(|(address, rule)| (address - CODE, rule)).collect()
}

/// Invariants of all compiled files.
fn check(compiled: &Compiled) {
    let rows: Vec<_> = compiled.rows().collect();
    assert!(rows.is_sorted_by(|left, right| left.0 < right.0));
    assert!(rows.windows(2).all(|pair| pair[0].1 != pair[1].1));
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        assert_ne!(first.1, Rule::UNKNOWN);
        assert_eq!(last.1, Rule::UNKNOWN);
    }
    let mut rules = SharedRules::new();
    let table = pack(compiled, &rules.add(compiled.rules(), Instant::now()));
    for (address, rule) in rows {
        let index = RuleSearch::new().find(&table, table.pages, address - table.base);
        // A table with too many rules has some without an index.
        let is_left_out = index == 0 && rules.left_out() > 0;
        assert!(
            is_left_out || rules.get(index) == Some(rule),
            "{address:#x}"
        );
    }
}

#[test]
fn rows_are_those_of_the_functions_and_gaps() {
    let mut image = Image::default();
    let common = image.common("zR", &ENTRY);
    // push rbp; mov; push rbx; …; pop; pop
    let frame = [
        0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x41, 0x83, 3, 0x50, 0x0c, 7, 8, 0xc6, 0xc3,
    ];
    image.function(common, 0x2_0000, 0x100, &frame);
    image.function(common, 0x10, 0x10, &[]);
    image.function(common, 0x20, 0x10, &[]);
    let made = compiled(&image);
    check(&made);
    let pushed = Rule {
        offset: 16,
        frame_pointer: Saved::at(-2),
        ..START
    };
    let framed = Rule {
        register: 6,
        ..pushed
    };
    let based = Rule {
        base: Saved::at(-3),
        ..framed
    };
    let expected = [
        (0x10, START),
        (0x30, Rule::UNKNOWN),
        (0x2_0000, START),
        (0x2_0001, pushed),
        (0x2_0004, framed),
        (0x2_0005, based),
        (0x2_0015, START),
        (0x2_0100, Rule::UNKNOWN),
    ];
    assert_eq!(rows(&made), expected);
    assert_eq!(made.unknown().iter().next(), None);
    let elf = image.file();
    let extents = functions(&Elf::read(elf.as_slice()).unwrap()).unwrap();
    let extents: Vec<_> = extents
        .iter()
        .map(|it| (it.start - CODE, it.end - CODE))
        .collect();
    assert_eq!(extents, [(0x10, 0x20), (0x20, 0x30), (0x2_0000, 0x2_0100)]);
}

/// The rules of a function, the first at its start.
fn rules_of(augmentation: &str, instructions: &[u8]) -> (Vec<Rule>, Compiled) {
    let mut image = Image::default();
    let common = image.common(augmentation, &ENTRY);
    image.function(common, 0, 0x100, instructions);
    let made = compiled(&image);
    check(&made);
    let rules = rows(&made).into_iter().map(|(_, rule)| rule).collect();
    (rules, made)
}

#[test]
fn every_kind_of_rule_is_compiled() {
    let only = |augmentation, instructions: &[u8]| rules_of(augmentation, instructions).0[0];
    let of = |cfa| Rule {
        cfa,
        ..Rule::UNKNOWN
    };
    assert_eq!(only("zR", &[0x07, 16]), of(CfaRule::END));
    // *(rsp + 160), as in `__restore_rt`.
    let context = [0x0f, 4, 0x77, 0xa0, 1, 6];
    assert_eq!(only("zRS", &context), of(CfaRule::SIGNAL));
    let dereferenced = Rule {
        cfa: CfaRule::DEREFERENCED,
        offset: 160,
        ..START
    };
    assert_eq!(only("zR", &context), dereferenced);
    let more = [0x0f, 6, 0x77, 0xa0, 1, 6, 0x23, 8];
    let dereferenced = Rule {
        addend: 8,
        ..dereferenced
    };
    assert_eq!(only("zR", &more), dereferenced);
    let plt = [
        0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22,
    ];
    let expected = Rule {
        cfa: CfaRule::PLT,
        offset: 11,
        addend: 8,
        ..START
    };
    assert_eq!(only("zR", &plt), expected);
    // As GCC realigns the stack: the CFA at rbp - 8, rbp at rbp + 0, rbx at rbp - 16.
    let realigned = [
        0x0f, 3, 0x76, 0x78, 6, 0x10, 6, 2, 0x76, 0, 0x10, 3, 2, 0x76, 0x70,
    ];
    let (rules, made) = rules_of("zR", &realigned);
    let expected = Rule {
        cfa: CfaRule::DEREFERENCED,
        register: 6,
        flags: RuleFlags::BY_FRAME_POINTER,
        offset: -8,
        frame_pointer: Saved::at(0),
        base: Saved::LOST,
        ..START
    };
    assert_eq!(rules[0], expected);
    assert_eq!(made.unknown().get(UnknownReason::Base), 1);
    // Relative to the stack pointer is relative to the CFA.
    let by_stack = [0x0e, 32, 0x10, 6, 2, 0x77, 0x10];
    let expected = Rule {
        offset: 32,
        frame_pointer: Saved::at(-2),
        ..START
    };
    assert_eq!(only("zR", &by_stack), expected);
    let leaf = Rule {
        register: 10,
        offset: 0,
        ..START
    };
    assert_eq!(only("zR", &[0x0c, 10, 0]), leaf);
}

#[test]
fn rows_that_no_rule_expresses_are_unknown_and_counted() {
    let cases: [(&[u8], UnknownReason); 10] = [
        // An unknown instruction; a truncated one.
        (&[0x3f], UnknownReason::Malformed),
        (&[0x0e], UnknownReason::Malformed),
        // `DW_CFA_restore_state` without a state.
        (&[0x0b], UnknownReason::Malformed),
        // *(*rsp)
        (&[0x0f, 4, 0x77, 0, 6, 6], UnknownReason::FrameExpression),
        (&[0x0f, 0], UnknownReason::FrameExpression),
        (&[0x0c, 17, 8], UnknownReason::FrameRegister),
        (
            &[0x0e, 0x80, 0x80, 0x80, 0x80, 0x08],
            UnknownReason::FrameOffset,
        ),
        // In rdx, and not at a multiple of eight.
        (&[0x09, 16, 1], UnknownReason::ReturnAddress),
        (&[0x10, 16, 2, 0x77, 1], UnknownReason::ReturnAddress),
        // The caller's stack pointer is in r8.
        (&[0x09, 7, 8], UnknownReason::StackPointer),
    ];
    for (instructions, reason) in cases {
        let instructions = [&[0x41], instructions].concat();
        let (rules, made) = rules_of("zR", &instructions);
        assert_eq!(rules, [START, Rule::UNKNOWN], "{reason:?}");
        let counted: Vec<_> = made.unknown().iter().collect();
        assert_eq!(counted, [(reason, 1)]);
    }
    // The frame pointer in r11, and at an offset that is out of range.
    for instructions in [&[0x09, 6, 11][..], &[0x86, 0x80, 0x80, 4]] {
        let (rules, made) = rules_of("zR", instructions);
        assert_eq!(rules[0].frame_pointer, Saved::LOST);
        assert_eq!(made.unknown().get(UnknownReason::FramePointer), 1);
    }
}

#[test]
fn of_overlapping_functions_the_higher_start_applies() {
    let mut image = Image::default();
    let common = image.common("zR", &ENTRY);
    for (start, bytes, offset) in [
        (0x20, 0x10, 24),
        (0x00, 0x100, 16),
        (0x80, 0x100, 32),
        (0x20, 0x40, 40),
        (0x80, 0, 48),
    ] {
        image.function(common, start, bytes, &[0x0e, offset]);
    }
    let made = compiled(&image);
    check(&made);
    let offsets: Vec<_> = rows(&made)
        .into_iter()
        .map(|(distance, rule)| (distance, rule.offset))
        .collect();
    // Of those that start at 0x20 only the first applies.
    assert_eq!(
        offsets,
        [(0, 16), (0x20, 24), (0x30, 0), (0x80, 32), (0x180, 0)]
    );
}

#[test]
fn rows_in_evaluation_loops_are_marked() {
    let mut image = Image::default();
    let common = image.common("zR", &ENTRY);
    image.function(common, 0x10, 0x10, &[]);
    image.function(common, 0x30, 0x10, &[0x48, 0x0e, 16]);
    let elf = image.file();
    let elf = Elf::read(elf.as_slice()).unwrap();
    let at = |start, end| CODE + start..CODE + end;
    let loops = [
        at(0x3a, 0x50),
        at(0x18, 0x34),
        at(0x20, 0x31),
        0..0,
        9..u64::MAX,
    ];
    let made = compile(&elf, &loops.map(evaluation_loop)).unwrap();
    check(&made);
    let marked = |rule: Rule| Rule {
        flags: RuleFlags::EVALUATES,
        ..rule
    };
    let pushed = Rule {
        offset: 16,
        ..START
    };
    let expected = [
        (0x10, START),
        (0x18, marked(START)),
        (0x20, marked(Rule::UNKNOWN)),
        (0x30, marked(START)),
        (0x34, START),
        (0x38, pushed),
        (0x3a, marked(pushed)),
        (0x40, marked(Rule::UNKNOWN)),
        (0x50, Rule::UNKNOWN),
    ];
    assert_eq!(rows(&made), expected);
}

#[test]
fn the_beginning_of_a_stack_has_no_caller() {
    let mut image = Image::default();
    let common = image.common("zR", &ENTRY);
    image.function(common, 0x10, 0x10, &[]);
    image.function(common, 0x20, 0x10, &[0x48, 0x0e, 16]);
    let elf = image.file();
    let elf = Elf::read(elf.as_slice()).unwrap();
    let root = CodeMark {
        range: CODE + 0x20..CODE + 0x30,
        role: CodeRole::StackRoot,
    };
    let made = compile(&elf, &[root, evaluation_loop(CODE + 0x10..CODE + 0x20)]).unwrap();
    check(&made);
    let marked = Rule {
        flags: RuleFlags::EVALUATES,
        ..START
    };
    let end = Rule {
        cfa: CfaRule::END,
        ..Rule::UNKNOWN
    };
    let expected = [(0x10, marked), (0x20, end), (0x30, Rule::UNKNOWN)];
    assert_eq!(rows(&made), expected);
}

/// Marks an evaluation loop.
fn evaluation_loop(range: Range<u64>) -> CodeMark {
    CodeMark {
        range,
        role: CodeRole::EvaluationLoop,
    }
}

#[test]
fn this_program_has_the_same_rows_without_section_headers() {
    let mut program = fs::read("/proc/self/exe").unwrap();
    let whole = compile(&Elf::read(program.as_slice()).unwrap(), &[]).unwrap();
    check(&whole);
    assert!(whole.rows().len() > 10_000);
    let all: u64 = whole.unknown().iter().map(|(_, count)| count).sum();
    assert!(all < 100, "{:?}", whole.unknown());

    program[40..48].fill(0);
    program[58..64].fill(0);
    let bare = Elf::read(program.as_slice()).unwrap();
    assert!(!bare.has_sections());
    let bare = compile(&bare, &[]).unwrap();
    assert!(bare.rows().eq(whole.rows()));
}

#[test]
fn the_vdso_is_compiled() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
    let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
    let [start, end] = [start, end].map(|it| u64::from_str_radix(it, 16).unwrap());
    let mut image = vec![0; usize::try_from(end - start).unwrap()];
    let memory = fs::File::open("/proc/self/mem").unwrap();
    memory.read_exact_at(&mut image, start).unwrap();

    let elf = Elf::read(image.as_slice()).unwrap();
    let made = compile(&elf, &[]).unwrap();
    check(&made);
    let function = elf
        .exported_symbol("__vdso_clock_gettime")
        .unwrap()
        .unwrap();
    assert_eq!(made.find(function.address).cfa, CfaRule::REGISTER);
}

#[test]
fn debug_frame_replaces_a_missing_eh_frame() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source.c");
    let library = directory.path().join("library.so");
    let code = "int other(int *); int called(int n) { int all[64]; return other(all) + n; }";
    fs::write(&source, code).unwrap();
    let rule = |options: &[&str]| {
        let mut compiler = tools::GCC.command();
        compiler.args(["-shared", "-fPIC", "-O1", "-g", "-o"]);
        compiler.arg(&library).arg(&source).args(options);
        assert!(compiler.status().unwrap().success());
        let elf = Elf::read(fs::File::open(&library).unwrap()).unwrap();
        let function = elf.symbol("called").unwrap().unwrap();
        let made = compile(&elf, &[]).unwrap();
        check(&made);
        let has = elf.section(".debug_frame").is_some();
        assert!(!functions(&elf).unwrap().is_empty());
        (has, made.find(function.address + function.bytes / 2))
    };
    let (has, loaded) = rule(&[]);
    assert!(!has && loaded != Rule::UNKNOWN);
    for options in [&["-gz=none"], &["-gz=zlib"]] {
        let options = [&["-fno-asynchronous-unwind-tables"], &options[..]].concat();
        assert_eq!(rule(&options), (true, loaded));
    }
}
