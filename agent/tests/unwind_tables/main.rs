//! Tables equal what `readelf` reads of the same call-frame information: of every interpreter,
//! the C libraries and dynamic linkers that they run with, libraries with unusual code, and Go.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::HashSet,
    fmt,
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::Instant,
};

use agent::testing::{
    binaries::{
        elf::Elf,
        unwind::{SharedRules, compile, pack},
    },
    process::maps,
};
use agent_common::unwind::{CfaRule, Rule, RuleFlags, RuleSearch, Saved};
use goblin::elf::header::EM_X86_64;
use test_support::mapped;
use xtask::interpreters;

mod go;
mod readelf;

use readelf::Row;

/// Registers by their DWARF number.
const X86_64: [&str; 16] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// Libraries with handwritten code or code that realigns its stack, compared if installed.
const LIBRARIES: [&str; 4] = [
    "libcrypto.so.3",
    "libgcc_s.so.1",
    "libgmp.so.10",
    "libgcrypt.so.20",
];

/// Most rows of a file that may be unknown: those where code switches stacks.
const MOST_UNKNOWN: usize = 16;

/// Most differences printed per file.
const MOST_SHOWN: usize = 10;

#[test]
fn every_row_equals_that_of_readelf() {
    let mut compared = HashSet::new();
    let mut different = 0;
    let mut check = |name: &str, file: &File| {
        let metadata = file.metadata().unwrap();
        if compared.insert((metadata.dev(), metadata.ino())) {
            let result = Comparison::of(file);
            println!("{name}: {result}");
            assert!(result.rows > 0 && result.unknown <= MOST_UNKNOWN, "{name}");
            different += result.different;
        }
    };
    for path in libraries() {
        if let Ok(file) = File::open(&path) {
            check(&path.display().to_string(), &file);
        }
    }
    for interpreter in interpreters::all().unwrap() {
        for mapped in mapped::files(&interpreter) {
            check(
                &format!("{} of {}", mapped.name, interpreter.name),
                &mapped.file,
            );
        }
    }
    assert!(compared.len() > 1);
    assert_eq!(different, 0);
}

/// The paths of [`LIBRARIES`], in the folder of the C library.
fn libraries() -> Vec<PathBuf> {
    let mappings = maps::parse(&fs::read("/proc/self/maps").unwrap());
    let library = mappings
        .into_iter()
        .filter_map(|mapping| mapping.file)
        .find(|file| file.path.to_string_lossy().contains("/libc.so"))
        .unwrap();
    LIBRARIES
        .iter()
        .map(|name| library.path.with_file_name(name))
        .collect()
}

/// The result of a comparison.
#[derive(Debug, Default)]
struct Comparison {
    functions: usize,
    rows: usize,
    unknown: usize,
    lost: usize,
    different: usize,
    words: usize,
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} functions, {} rows, {} unknown, {} with a lost register, {} different; {} words",
            self.functions, self.rows, self.unknown, self.lost, self.different, self.words
        )
    }
}

impl Comparison {
    fn of(file: &File) -> Self {
        let elf = Elf::read(file.try_clone().unwrap()).unwrap();
        let compiled = compile(&elf, &[]).unwrap();
        let mut rules = SharedRules::new();
        let table = pack(&compiled, &rules.add(compiled.rules(), Instant::now()));
        assert_eq!(rules.left_out(), 0);
        let find = |address: u64| {
            let distance = address.wrapping_sub(table.base);
            let index = RuleSearch::new().find(&table, table.pages, distance);
            rules.get(index).unwrap()
        };
        let expressions = readelf::expressions(file);
        let mut functions = readelf::functions(file);
        functions.retain(|function| !function.range.is_empty());
        // The first of those with the same start is used.
        functions.sort_by_key(|function| function.range.start);
        functions.dedup_by_key(|function| function.range.start);

        let mut result = Self {
            functions: functions.len(),
            words: table.words.len(),
            ..Self::default()
        };
        let mut differs = |address, rule: Rule, expected: &dyn fmt::Debug| {
            if result.different < MOST_SHOWN {
                println!("{address:#x}: {rule:?} for {expected:?}");
            }
            result.different += 1;
        };
        let nexts = functions.iter().skip(1).map(|next| next.range.start);
        for (function, next) in functions.iter().zip(nexts.chain([u64::MAX])) {
            let end = function.range.end.min(next);
            if end < next && find(end) != Rule::UNKNOWN {
                differs(end, find(end), &"nothing");
            }
            let ends = function.rows.iter().skip(1).map(|row| row.address);
            for (row, row_end) in function.rows.iter().zip(ends.chain([end])) {
                let row_end = row_end.min(end);
                if row.address >= row_end {
                    continue;
                }
                result.rows += 1;
                let rule = find(row.address);
                result.unknown += usize::from(rule == Rule::UNKNOWN);
                result.lost += usize::from([rule.frame_pointer, rule.base].contains(&Saved::LOST));
                let mut before = expressions.range(function.range.start..=row.address);
                let expression = before
                    .next_back()
                    .map(|(_, expression)| expression.as_str());
                let is_right = rule == Rule::UNKNOWN
                    || is_equal(
                        elf.machine(),
                        &rule,
                        row,
                        function.is_signal_trampoline,
                        expression,
                    );
                if !is_right || find(row_end - 1) != rule {
                    differs(row.address, rule, row);
                }
            }
        }
        result
    }
}

/// Whether a rule equals a row.
fn is_equal(
    machine: u16,
    rule: &Rule,
    row: &Row,
    is_signal_trampoline: bool,
    expression: Option<&str>,
) -> bool {
    if is_signal_trampoline {
        return rule.cfa == CfaRule::SIGNAL;
    }
    let (frame_pointer, base) = match machine {
        EM_X86_64 => ("rbp", "rbx"),
        _ => ("x29", "none"),
    };
    // On other machines the return address may also just not have been saved.
    if row.cell("ra") == "u" && (machine == EM_X86_64 || rule.cfa == CfaRule::END) {
        return rule.cfa == CfaRule::END;
    }
    let is_frame_pointer = if rule.flags == RuleFlags::BY_FRAME_POINTER {
        row.cell(frame_pointer) == "exp"
    } else {
        is_saved(rule.frame_pointer, row.cell(frame_pointer))
    };
    is_frame_pointer
        && is_cfa(rule, row.cell("CFA"), expression)
        && is_saved(rule.return_address, row.cell("ra"))
        && is_saved(rule.base, row.cell(base))
}

/// Whether the CFA of a rule equals that in a cell, which does not contain the expression.
fn is_cfa(rule: &Rule, cell: &str, expression: Option<&str>) -> bool {
    if cell == "exp" {
        return expression.is_some_and(|expression| is_expression(rule, expression));
    }
    let (name, offset) = cell.split_at(cell.find(['+', '-']).unwrap());
    (rule.cfa, usize::from(rule.register)) == (CfaRule::REGISTER, register(name))
        && i64::from(rule.offset) == offset.parse::<i64>().unwrap()
}

/// Whether the CFA of a rule equals an expression, such as `DW_OP_breg7 (rsp): 24; DW_OP_deref;
/// DW_OP_plus_uconst: 8`.
fn is_expression(rule: &Rule, expression: &str) -> bool {
    let operations: Vec<&str> = expression.split("; ").collect();
    let (first, offset) = operations[0].split_once(": ").unwrap();
    let offset: i64 = offset.parse().unwrap();
    let number = |operation: &str, name| operation.strip_prefix(name)?.parse::<i64>().ok();
    let is_from = |name: &str| first.ends_with(&format!("({name})"));
    let is_register = X86_64.iter().position(|name| is_from(name)) == Some(rule.register.into());
    match operations[1..] {
        ["DW_OP_deref"] => {
            rule.cfa == CfaRule::DEREFERENCED
                && is_register
                && (i64::from(rule.offset), rule.addend) == (offset, 0)
        }
        ["DW_OP_deref", addend] => {
            rule.cfa == CfaRule::DEREFERENCED
                && is_register
                && i64::from(rule.offset) == offset
                && Some(rule.addend.into()) == number(addend, "DW_OP_plus_uconst: ")
        }
        [
            index,
            "DW_OP_lit8",
            "DW_OP_mul",
            "DW_OP_plus",
            "DW_OP_deref",
            addend,
        ] => {
            let name = X86_64[usize::from(rule.register)];
            rule.cfa == CfaRule::INDEXED
                && is_from("rsp")
                && index == format!("DW_OP_breg{} ({name}): 0", rule.register)
                && i64::from(rule.offset) == offset
                && Some(rule.addend.into()) == number(addend, "DW_OP_plus_uconst: ")
        }
        [
            "DW_OP_breg16 (rip): 0",
            "DW_OP_lit15",
            "DW_OP_and",
            byte,
            "DW_OP_ge",
            "DW_OP_lit3",
            "DW_OP_shl",
            "DW_OP_plus",
        ] => {
            rule.cfa == CfaRule::PLT
                && is_register
                && i64::from(rule.addend) == offset
                && Some(rule.offset.into()) == number(byte, "DW_OP_lit")
        }
        _ => false,
    }
}

/// Whether a register is saved at the location in a cell.
fn is_saved(saved: Saved, cell: &str) -> bool {
    match cell.strip_prefix('c') {
        Some(offset) => saved.bytes() == offset.parse::<i64>().unwrap(),
        None if matches!(cell, "u" | "s") => saved == Saved::UNCHANGED,
        None => saved == Saved::LOST,
    }
}

/// DWARF number of a register.
fn register(name: &str) -> usize {
    match (name, name.strip_prefix('x')) {
        ("sp", _) => 31,
        (_, Some(number)) => number.parse().unwrap(),
        _ => X86_64.iter().position(|other| *other == name).unwrap(),
    }
}
