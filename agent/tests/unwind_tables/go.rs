//! Tables of Go programs equal what `readelf` reads of their debugging information, for the functions
//! that it describes, and agree with their instructions.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use agent::testing::binaries::{
    elf::{Elf, GoFunction, GoTable, Shared},
    unwind::{Compiled, compile},
};
use agent_common::unwind::{CfaRule, Rule, RuleFlags, Saved};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use tempfile::TempDir;
use xtask::tools::go::{self, Go};

use super::readelf;

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/end_to_end/workloads/mixed.go"
);

/// DWARF's numbers of the stack pointer and the frame pointer of x86-64.
const STACK_POINTER: u8 = 7;
const FRAME_POINTER: u8 = 6;

/// Functions whose debugging information does not describe their changes to the stack, or the
/// location of their callers.
const SPECIAL: [&str; 17] = [
    "_rt0_amd64",
    "_rt0_amd64_linux",
    "gogo",
    "runtime.asmcgocall",
    "runtime.callCgoMmap",
    "runtime.callCgoMunmap",
    "runtime.callCgoSigaction",
    "runtime.clone",
    "runtime.goexit",
    "runtime.mcall",
    "runtime.morestack",
    "runtime.mstart",
    "runtime.nanotime1",
    "runtime.rt0_go",
    "runtime.sigfwd",
    "runtime.systemstack",
    "time.now",
];

/// Further ones of one version: 1.19, and 1.26, which marks all functions that set the stack
/// pointer.
const SPECIAL_IN_1_19: [&str; 1] = [SIGNAL_RETURNS[0]];
const SPECIAL_IN_1_26: [&str; 4] = [
    SIGNAL_RETURNS[1],
    "runtime.switchToCrashStack0",
    "runtime.vgetrandom1",
    "syscall.rawVforkSyscall",
];

/// Functions whose callers debugging information for aarch64 does not describe: the kernel calls the first one, and
/// handlers of signals the others.
const UNDESCRIBED: [&str; 4] = [
    "runtime.sigtramp",
    "runtime.sigpanic",
    "runtime.asyncPreempt",
    "runtime.debugCallV2",
];

/// Functions that signal handlers return to, in the oldest and in the newest version.
const SIGNAL_RETURNS: [&str; 2] = ["runtime.sigreturn", "runtime.sigreturn__sigaction"];

/// Functions at which stacks end.
const ENDS: [&str; 4] = [
    "runtime.goexit",
    "runtime.mcall",
    "runtime.morestack",
    "runtime.mstart",
];

/// A folder in which Go programs are built, and the version of Go.
struct Room {
    folder: TempDir,
    go: Go,
}

impl Room {
    /// One for each Go.
    fn all() -> [Self; 2] {
        go::all().unwrap().map(|go| Self {
            folder: TempDir::new().unwrap(),
            go,
        })
    }

    /// Builds the program, with and without its debugging information.
    fn build(&self, architecture: &str, options: &[&str]) -> (PathBuf, PathBuf) {
        let [complete, stripped] = ["whole", "stripped"].map(|name| self.folder.path().join(name));
        let build = |program: &Path, flags: &str| {
            let mut compiler = self.go.command();
            compiler
                .arg("build")
                .args(options)
                .args(["-ldflags", flags]);
            compiler.arg("-o").arg(program).arg(SOURCE);
            compiler.env("GOARCH", architecture);
            assert!(compiler.status().unwrap().success());
        };
        build(&complete, "");
        build(&stripped, "-s -w");
        (complete, stripped)
    }
}

fn open(path: &Path) -> Elf<File> {
    Elf::read(File::open(path).unwrap()).unwrap()
}

fn compiled(path: &Path) -> Compiled {
    compile(&open(path), &[]).unwrap()
}

fn go_table(path: &Path) -> GoTable<Shared> {
    open(path).share().go_lines().unwrap().unwrap()
}

fn name(function: &GoFunction<'_, Shared>) -> String {
    String::from_utf8(function.name()).unwrap()
}

fn named<'a>(table: &'a GoTable<Shared>, wanted: &str) -> GoFunction<'a, Shared> {
    table.functions().find(|it| name(it) == wanted).unwrap()
}

/// The code of a function.
fn code(elf: &Elf<File>, function: &GoFunction<'_, Shared>) -> Vec<u8> {
    let mut code = vec![0; usize::try_from(function.end - function.start).unwrap()];
    assert!(elf.initial_bytes(function.start, &mut code).unwrap());
    code
}

#[test]
fn rows_of_go_equal_its_debugging_information() {
    for room in Room::all() {
        for options in [&["-buildmode=exe"], &["-buildmode=pie"]] {
            println!("go {} {options:?}", room.go.version());
            check_rows(&room, options);
        }
    }
}

fn check_rows(room: &Room, options: &[&str]) {
    let (complete, stripped) = room.build("amd64", options);
    assert!(open(&stripped).section(".debug_frame").is_none());
    let rows = compiled(&stripped);
    let table = go_table(&stripped);
    let special = compare(&complete, &table, &rows);
    let of_version = if room.go.minor() == 19 {
        &SPECIAL_IN_1_19[..]
    } else {
        &SPECIAL_IN_1_26
    };
    let expected = SPECIAL.iter().chain(of_version);
    let expected: BTreeSet<_> = expected.map(ToString::to_string).collect();
    assert_eq!(special, expected);
    check_ends(&table, &rows);
    check_frame_pointers(&open(&stripped), &table, &rows);
}

/// Compares the rules of all addresses; returns the functions whose rules are not relative to the
/// stack pointer.
fn compare(complete: &Path, table: &GoTable<Shared>, rows: &Compiled) -> BTreeSet<String> {
    let mut special = BTreeSet::new();
    let mut compared = 0;
    let functions: Vec<_> = table.functions().collect();
    for function in readelf::functions(&File::open(complete).unwrap()) {
        let start = function.range.start;
        let index = functions.binary_search_by_key(&start, |it| it.start);
        let found = &functions[index.unwrap()];
        assert!(function.range.end <= found.end);
        let ends = function.rows.iter().skip(1).map(|row| row.address);
        for (row, end) in function.rows.iter().zip(ends.chain([function.range.end])) {
            for address in row.address..end {
                let rule = rows.find(address);
                if (rule.cfa, rule.register) != (CfaRule::REGISTER, STACK_POINTER) {
                    special.insert(name(found));
                    continue;
                }
                let offset = row.cell("CFA").strip_prefix("rsp+").unwrap();
                let expected = (offset.parse().unwrap(), Saved::at(-1));
                let at = format!("{} {address:#x}", name(found));
                assert_eq!((rule.offset, rule.return_address), expected, "{at}");
                compared += 1;
            }
        }
    }
    println!("{compared} addresses compared; special are {special:?}");
    assert!(compared > 100_000);
    special
}

fn check_ends(table: &GoTable<Shared>, rows: &Compiled) {
    for end in ENDS {
        assert_eq!(
            rows.find(named(table, end).start + 1).cfa,
            CfaRule::END,
            "{end}"
        );
    }
    let is_trampoline = |it: &GoFunction<'_, Shared>| SIGNAL_RETURNS.contains(&name(it).as_str());
    let trampoline = table.functions().find(is_trampoline).unwrap().start;
    for address in [trampoline - 1, trampoline] {
        assert_eq!(rows.find(address).cfa, CfaRule::SIGNAL);
    }
    // It switches to another stack, and its frame pointer does not change.
    let function = named(table, "runtime.nanotime1");
    let framed = function.stack_sizes().find(|size| size.bytes > 0).unwrap();
    let expected = Rule {
        cfa: CfaRule::REGISTER,
        register: FRAME_POINTER,
        flags: RuleFlags::SWITCHES,
        offset: 16,
        frame_pointer: Saved::at(-2),
        base: Saved::LOST,
        return_address: Saved::at(-1),
        ..Rule::UNKNOWN
    };
    assert_eq!(rows.find(framed.range.start), expected);
    assert_eq!(rows.find(function.start).register, STACK_POINTER);
    let mut switches = 0;
    let starts_by = |it: &GoFunction<'_, Shared>| rows.find(it.start).register;
    for function in table
        .functions()
        .filter(|it| name(it) == "runtime.asmcgocall")
    {
        let framed = function.stack_sizes().find(|size| size.bytes > 0);
        match framed {
            // The wrapper for the other calling convention has its own frame.
            Some(_) if function.is_assembly() == Some(false) => {
                assert_eq!(starts_by(&function), STACK_POINTER);
            }
            // Like all functions that switch stacks since 1.21.
            Some(framed) => {
                assert_eq!(starts_by(&function), STACK_POINTER);
                assert_eq!(rows.find(framed.range.start), expected);
            }
            None => assert_eq!(starts_by(&function), FRAME_POINTER),
        }
        switches += usize::from(function.is_assembly() == Some(true));
    }
    assert_eq!(switches, 1);
}

/// Checks that the frame pointer is marked as saved after the instruction that saves it.
fn check_frame_pointers(elf: &Elf<File>, table: &GoTable<Shared>, rows: &Compiled) {
    let mut checked = 0;
    for function in table.functions() {
        let code = code(elf, &function);
        let mut decoder = Decoder::with_ip(64, &code, function.start, DecoderOptions::NONE);
        let mut is_saved = false;
        for instruction in &mut decoder {
            let at = format!("{} {:#x}", name(&function), instruction.ip());
            let rule = rows.find(instruction.ip());
            if (rule.cfa, rule.register) != (CfaRule::REGISTER, STACK_POINTER) {
                continue;
            }
            if !is_saved && saves_frame_pointer(&instruction, rule.offset) {
                is_saved = true;
                let next = rows.find(instruction.next_ip());
                assert_eq!(next.frame_pointer, Saved::at(-2), "{at}");
                checked += 1;
            }
            // A frame of one word is not distinguishable from a pushed one.
            if !is_saved && rule.offset != 16 {
                assert_eq!(rule.frame_pointer, Saved::UNCHANGED, "{at}");
            }
        }
    }
    println!("{checked} functions save the frame pointer");
    assert!(checked > 500);
}

/// Whether an instruction saves the frame pointer right below the return address, where the CFA is
/// so far from the stack pointer.
fn saves_frame_pointer(instruction: &Instruction, offset: i32) -> bool {
    let is_stored = instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_register() == Register::RBP
        && instruction.memory_base() == Register::RSP
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64().cast_signed() == i64::from(offset) - 16;
    let is_pushed = instruction.mnemonic() == Mnemonic::Push
        && instruction.op0_register() == Register::RBP
        && offset == 8;
    is_stored || is_pushed
}

#[test]
fn the_go_table_is_found_without_its_section_or_base() {
    for room in Room::all() {
        println!("go {}", room.go.version());
        check_search(&room);
    }
}

fn check_search(room: &Room) {
    // The linker of the system puts it into a section with other data.
    let mut compiler = room.go.command();
    let merged = room.folder.path().join("merged");
    compiler.args([
        "build",
        "-buildmode=pie",
        "-ldflags=-s -linkmode=external",
        "-o",
    ]);
    compiler.arg(&merged).arg(SOURCE);
    assert!(compiler.status().unwrap().success());
    assert!(open(&merged).section(".data.rel.ro.gopclntab").is_none());
    assert!(go_table(&merged).functions().count() > 1000);
    let work = named(&go_table(&merged), "main.work").start;
    assert_eq!(compiled(&merged).find(work).register, STACK_POINTER);

    let (_, stripped) = room.build("amd64", &[]);
    let complete = compiled(&stripped);
    let section = open(&stripped).section(".gopclntab").unwrap();
    let head = usize::try_from(section.file_offset.unwrap()).unwrap();
    let mut bytes = fs::read(&stripped).unwrap();
    // Newer linkers store the base only in the module data.
    bytes[head + 24..head + 32].fill(0);
    let is_same = |bytes: &[u8]| {
        let elf = Elf::read(bytes).unwrap();
        let is_same = compile(&elf, &[]).unwrap().rows().eq(complete.rows());
        (elf.has_sections(), is_same)
    };
    assert_eq!(is_same(&bytes), (true, true));
    // Without section headers.
    bytes[40..48].fill(0);
    bytes[58..64].fill(0);
    assert_eq!(is_same(&bytes), (false, true));
}

#[test]
fn rows_of_go_for_aarch64_equal_its_debugging_information() {
    for room in Room::all() {
        println!("go {}", room.go.version());
        check_aarch64(&room);
    }
}

fn check_aarch64(room: &Room) {
    let (complete, program) = room.build("arm64", &[]);
    let rows = compiled(&program);
    let table = go_table(&program);
    let leaf = Rule {
        cfa: CfaRule::REGISTER,
        register: 31,
        ..Rule::UNKNOWN
    };
    let function = named(&table, "main.work");
    let framed = function.stack_sizes().find(|size| size.bytes > 0).unwrap();
    let words = Saved::at(i16::try_from(framed.bytes / 8).unwrap());
    let allocated = Rule {
        offset: framed.bytes,
        return_address: Saved::at(-words.0),
        ..leaf
    };
    let saved = Rule {
        frame_pointer: Saved::at(-words.0 - 1),
        ..allocated
    };
    assert_eq!(rows.find(function.start), leaf);
    assert_eq!(rows.find(framed.range.start), allocated);
    assert_eq!(rows.find(framed.range.start + 4), saved);
    assert_eq!(
        rows.find(named(&table, "runtime.goexit").start).cfa,
        CfaRule::END
    );
    // Made by a handler of signals, which has put two words below the frame of the caller.
    let injected = named(&table, "runtime.asyncPreempt");
    let framed = injected.stack_sizes().find(|size| size.bytes > 0).unwrap();
    let rule = rows.find(framed.range.start + 4);
    let words = i16::try_from(framed.bytes / 8).unwrap() + 2;
    assert_eq!(rule.offset, framed.bytes + 16);
    assert_eq!(rule.return_address, Saved::at(-words));
    assert_eq!(rule.frame_pointer, Saved::at(-words - 1));
    let except: BTreeSet<_> = table
        .functions()
        .filter(|function| UNDESCRIBED.contains(&name(function).as_str()))
        .map(|function| function.start)
        .collect();
    let compared = compare_aarch64(&complete, &rows, &except);
    println!("{compared} instructions compared");
    assert!(compared > 50_000);
}

/// Compares the CFA and the place of the return address at all instructions of functions that are unwound by the stack
/// pointer, except some.
fn compare_aarch64(complete: &Path, rows: &Compiled, except: &BTreeSet<u64>) -> usize {
    let mut compared = 0;
    for function in readelf::functions(&File::open(complete).unwrap()) {
        if except.contains(&function.range.start) {
            continue;
        }
        let ends = function.rows.iter().skip(1).map(|row| row.address);
        for (row, end) in function.rows.iter().zip(ends.chain([function.range.end])) {
            for address in (row.address..end).step_by(4) {
                let rule = rows.find(address);
                if (rule.cfa, rule.register) != (CfaRule::REGISTER, 31) {
                    continue;
                }
                let offset: i32 = row
                    .cell("CFA")
                    .strip_prefix("sp+")
                    .unwrap()
                    .parse()
                    .unwrap();
                assert_eq!(rule.offset, offset, "{address:#x}");
                // Where nothing is allocated, it says nothing.
                if offset > 0 {
                    let place = row.cell("ra").strip_prefix("c-").unwrap();
                    let bytes: i64 = place.parse().unwrap();
                    assert_eq!(rule.return_address.bytes(), -bytes, "{address:#x}");
                }
                compared += 1;
            }
        }
    }
    compared
}
