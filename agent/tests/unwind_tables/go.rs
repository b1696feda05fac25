//! Tables of Go programs equal what `readelf` reads of their debugging information, for the functions
//! that it describes, and agree with their instructions.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use agent::testing::binaries::{
    elf::{Elf, GoFunction, GoTable},
    unwind::{Compiled, compile},
};
use agent_common::unwind::{CfaRule, Rule, RuleFlags, Saved};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use tempfile::TempDir;

use super::readelf;

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/end_to_end/workloads/mixed.go"
);

/// DWARF's numbers of the stack pointer and the frame pointer of x86-64.
const STACK_POINTER: u8 = 7;
const FRAME_POINTER: u8 = 6;

/// Functions of which the debugging information does not say what they do to the stack, or where
/// their callers are.
const SPECIAL: [&str; 18] = [
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
    "runtime.sigreturn",
    "runtime.systemstack",
    "time.now",
];

/// Functions at which stacks end.
const ENDS: [&str; 4] = [
    "runtime.goexit",
    "runtime.mcall",
    "runtime.morestack",
    "runtime.mstart",
];

/// Where Go programs are built.
struct Room(TempDir);

impl Room {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Builds the program; gives it with its debugging information and without.
    fn build(&self, architecture: &str, options: &[&str]) -> (PathBuf, PathBuf) {
        let [whole, stripped] = ["whole", "stripped"].map(|name| self.0.path().join(name));
        let build = |program: &Path, flags: &str| {
            let mut compiler = Command::new("go");
            compiler
                .arg("build")
                .args(options)
                .args(["-ldflags", flags]);
            compiler.arg("-o").arg(program).arg(SOURCE);
            compiler.envs([("GO111MODULE", "off"), ("GOARCH", architecture)]);
            compiler.env("GOCACHE", self.0.path().join("cache"));
            assert!(compiler.status().unwrap().success());
        };
        build(&whole, "");
        build(&stripped, "-s -w");
        (whole, stripped)
    }
}

fn open(path: &Path) -> Elf<File> {
    Elf::read(File::open(path).unwrap()).unwrap()
}

fn compiled(path: &Path) -> Compiled {
    compile(&open(path), &[]).unwrap()
}

fn go_table(path: &Path) -> GoTable {
    open(path).go_table().unwrap().unwrap()
}

fn name(function: &GoFunction<'_>) -> String {
    String::from_utf8(function.name().to_vec()).unwrap()
}

fn named<'a>(table: &'a GoTable, wanted: &str) -> GoFunction<'a> {
    table.functions().find(|it| name(it) == wanted).unwrap()
}

/// The code of a function.
fn code(elf: &Elf<File>, function: &GoFunction<'_>) -> Vec<u8> {
    let mut code = vec![0; usize::try_from(function.end - function.start).unwrap()];
    assert!(elf.initial_bytes(function.start, &mut code).unwrap());
    code
}

#[test]
fn rows_of_go_are_as_its_debugging_information_says() {
    let room = Room::new();
    for options in [&["-buildmode=exe"], &["-buildmode=pie"]] {
        let (whole, stripped) = room.build("amd64", options);
        assert!(open(&stripped).section(".debug_frame").is_none());
        let rows = compiled(&stripped);
        let table = go_table(&stripped);
        let special = compare(&whole, &table, &rows);
        let known: BTreeSet<_> = SPECIAL.iter().map(ToString::to_string).collect();
        assert!(special.is_subset(&known), "{special:?}");
        check_ends(&table, &rows);
        check_frame_pointers(&open(&stripped), &table, &rows);
    }
}

/// Compares the rules of all addresses; gives the functions whose rules are not counted from the
/// stack pointer.
fn compare(whole: &Path, table: &GoTable, rows: &Compiled) -> BTreeSet<String> {
    let mut special = BTreeSet::new();
    let mut compared = 0;
    let functions: Vec<_> = table.functions().collect();
    for function in readelf::functions(&File::open(whole).unwrap()) {
        let start = function.range.start;
        let index = functions.binary_search_by_key(&start, |it| it.start);
        let found = functions[index.unwrap()];
        assert!(function.range.end <= found.end);
        let ends = function.rows.iter().skip(1).map(|row| row.address);
        for (row, end) in function.rows.iter().zip(ends.chain([function.range.end])) {
            for address in row.address..end {
                let rule = rows.find(address);
                if (rule.cfa, rule.register) != (CfaRule::REGISTER, STACK_POINTER) {
                    special.insert(name(&found));
                    continue;
                }
                let said = row.cell("CFA").strip_prefix("rsp+").unwrap();
                let expected = (said.parse().unwrap(), Saved::at(-1));
                let at = format!("{} {address:#x}", name(&found));
                assert_eq!((rule.offset, rule.return_address), expected, "{at}");
                compared += 1;
            }
        }
    }
    println!("{compared} addresses compared; special are {special:?}");
    assert!(compared > 100_000);
    special
}

fn check_ends(table: &GoTable, rows: &Compiled) {
    for end in ENDS {
        assert_eq!(
            rows.find(named(table, end).start + 1).cfa,
            CfaRule::END,
            "{end}"
        );
    }
    let trampoline = named(table, "runtime.sigreturn").start;
    for address in [trampoline - 1, trampoline] {
        assert_eq!(rows.find(address).cfa, CfaRule::SIGNAL);
    }
    // It goes to another stack, and its frame pointer stays where it was.
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
    // What the compiler makes to call it with other registers has a frame of its own.
    let wrapped = table
        .functions()
        .filter(|it| name(it) == "runtime.asmcgocall");
    let rules: BTreeSet<_> = wrapped.map(|it| rows.find(it.start).register).collect();
    assert_eq!(rules, BTreeSet::from([STACK_POINTER, FRAME_POINTER]));
}

/// Checks that the frame pointer counts as saved once an instruction has done so.
fn check_frame_pointers(elf: &Elf<File>, table: &GoTable, rows: &Compiled) {
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
            // A frame of one word may be taken for one that was pushed.
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
fn the_table_of_go_is_found_without_its_section_and_without_its_base() {
    let room = Room::new();
    // The linker of the system puts it into a section with other data.
    let mut compiler = Command::new("go");
    let merged = room.0.path().join("merged");
    compiler.args([
        "build",
        "-buildmode=pie",
        "-ldflags=-s -linkmode=external",
        "-o",
    ]);
    compiler.arg(&merged).arg(SOURCE).env("GO111MODULE", "off");
    compiler.env("GOCACHE", room.0.path().join("cache"));
    assert!(compiler.status().unwrap().success());
    assert!(open(&merged).section(".data.rel.ro.gopclntab").is_none());
    assert!(go_table(&merged).functions().count() > 1000);
    let work = named(&go_table(&merged), "main.work").start;
    assert_eq!(compiled(&merged).find(work).register, STACK_POINTER);

    let (_, stripped) = room.build("amd64", &[]);
    let whole = compiled(&stripped);
    let section = open(&stripped).section(".gopclntab").unwrap();
    let head = usize::try_from(section.file_offset.unwrap()).unwrap();
    let mut bytes = fs::read(&stripped).unwrap();
    // As newer linkers have it, that leave it to the description of the module.
    bytes[head + 24..head + 32].fill(0);
    let is_same = |bytes: &[u8]| {
        let elf = Elf::read(bytes).unwrap();
        let is_same = compile(&elf, &[]).unwrap().rows().eq(whole.rows());
        (elf.has_sections(), is_same)
    };
    assert_eq!(is_same(&bytes), (true, true));
    // Without section headers.
    bytes[40..48].fill(0);
    bytes[58..64].fill(0);
    assert_eq!(is_same(&bytes), (false, true));
}

#[test]
fn frame_pointers_are_followed_in_go_for_aarch64() {
    let room = Room::new();
    let (_, program) = room.build("arm64", &[]);
    let rows = compiled(&program);
    let table = go_table(&program);
    let leaf = Rule {
        cfa: CfaRule::REGISTER,
        register: 31,
        ..Rule::UNKNOWN
    };
    let frame = Rule {
        register: 29,
        offset: 16,
        frame_pointer: Saved::at(-2),
        return_address: Saved::at(-1),
        ..leaf
    };
    let function = named(&table, "main.work");
    let framed = function.stack_sizes().find(|size| size.bytes > 0).unwrap();
    assert_eq!(rows.find(function.start), leaf);
    assert_eq!(rows.find(framed.range.start), frame);
    assert_eq!(
        rows.find(named(&table, "runtime.goexit").start).cfa,
        CfaRule::END
    );
}
