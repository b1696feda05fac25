//! Compares the sources of layouts with each other: every offset that the BPF programs use is
//! confirmed by a second source.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
};

use agent::testing::{
    binaries::elf::{DebugFiles, Elf},
    process::Process,
    python::{
        Detector, Error, Interpreter, dwarf,
        layouts::{LayoutSource, LayoutSources},
        variables::{IntegerStyle, VariableNames},
        versions::series_of,
    },
};
use agent_common::layout::{Layout, TextStyle};
use test_support::child;
use xtask::interpreters;

/// Each source on its own.
const ALONE: [(LayoutSource, LayoutSources); 3] = [
    (
        LayoutSource::DebugOffsets,
        LayoutSources {
            debug_offsets: true,
            ..LayoutSources::NONE
        },
    ),
    (
        LayoutSource::Table,
        LayoutSources {
            table: true,
            ..LayoutSources::NONE
        },
    ),
    (
        LayoutSource::Dwarf,
        LayoutSources {
            dwarf: true,
            ..LayoutSources::NONE
        },
    ),
];

#[test]
fn all_sources_agree() {
    let mut wrong = Vec::new();
    for interpreter in interpreters::all().unwrap() {
        let child = start(&interpreter);
        let process = Process::open(child.id()).unwrap();
        let best = Detector::default().detect(&process).unwrap();
        let mut available = Vec::new();
        for (source, alone) in ALONE {
            match Detector::with_sources(alone).detect(&process) {
                Ok(python) => {
                    assert_eq!(python.layout_source, source);
                    assert_eq!(python.interpreters_head, best.interpreters_head);
                    assert_eq!(python.gil_holder, best.gil_holder);
                    available.push((source, python.layout));
                }
                Err(Error::Unsupported { .. }) => {}
                Err(error) => panic!("{interpreter}: {error}"),
            }
        }
        println!(
            "{interpreter}: {:?}",
            available
                .iter()
                .map(|(source, _)| source)
                .collect::<Vec<_>>()
        );
        assert_eq!(available.first(), Some(&(best.layout_source, best.layout)));
        for (source, layout) in &available {
            let differences = differences(&best.layout, layout);
            if !differences.is_empty() {
                wrong.push(format!("{interpreter}: {source:?}: {differences:?}"));
            }
        }
        let expected = expected_sources(&process, &best);
        let available: Vec<_> = available.into_iter().map(|(source, _)| source).collect();
        assert_eq!(available, expected, "{interpreter}");
        end(child);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What is known of variables besides the layout, by the debugging information of each interpreter that has some.
#[test]
fn facts_of_variables_are_those_of_debugging_information() {
    let mut confirmed = 0;
    for interpreter in interpreters::all().unwrap() {
        let child = start(&interpreter);
        let process = Process::open(child.id()).unwrap();
        let python = Detector::default().detect(&process).unwrap();
        let elf = Elf::read(process.open_in_root(&python.image).unwrap()).unwrap();
        let debug_file = DebugFiles::of(&process, &python.image).find(&elf);
        let facts = series_of(python.version).unwrap().variables;
        let head = u64::from(python.layout.object.class) + 8;
        let mut expected = vec![
            ("PyCodeObject", "co_flags", facts.flags),
            ("PyCodeObject", "co_argcount", facts.argument_count),
            ("PyTupleObject", "ob_item", facts.tuple_items),
        ];
        if let Some(count) = facts.keyword_only_count {
            expected.push(("PyCodeObject", "co_kwonlyargcount", count));
        }
        expected.extend(match facts.names {
            VariableNames::Separate {
                variables,
                cells,
                free,
            } => vec![
                ("PyCodeObject", "co_varnames", variables),
                ("PyCodeObject", "co_cellvars", cells),
                ("PyCodeObject", "co_freevars", free),
            ],
            VariableNames::Together { names, kinds } => vec![
                ("PyCodeObject", "co_localsplusnames", names),
                ("PyCodeObject", "co_localspluskinds", kinds),
            ],
        });
        // What is read of other objects in the same way in all versions.
        expected.extend([
            ("PyListObject", "ob_item", 8),
            ("PyListObject", "allocated", 16),
            ("PyFloatObject", "ob_fval", 0),
            ("PyComplexObject", "cval", 0),
            ("PyCellObject", "ob_ref", 0),
        ]);
        if python.layout.text.style != TextStyle::BYTES {
            expected.extend([
                ("PySetObject", "used", 8),
                ("PySetObject", "mask", 16),
                ("PySetObject", "table", 24),
                ("PyDictObject", "ma_used", 0),
            ]);
        }
        if facts.integers == IntegerStyle::Tag {
            expected.extend([
                ("PyLongObject", "long_value.lv_tag", 0),
                ("PyLongObject", "long_value.ob_digit", 8),
            ]);
        }
        let members: Vec<_> = expected.iter().map(|it| (it.0, it.1)).collect();
        let found = match &debug_file {
            Some(file) => dwarf::offsets(file, &members),
            None => dwarf::offsets(&elf, &members),
        };
        end(child);
        let Ok(found) = found else {
            println!("{interpreter}: no debugging information");
            continue;
        };
        let mut count = 0;
        for ((structure, member, offset), found) in expected.iter().zip(found) {
            // A structure that the interpreter's own code does not use is not described.
            if let Some(found) = found {
                let offset = head + u64::from(*offset);
                assert_eq!(found, offset, "{interpreter}: {structure}.{member}");
                count += 1;
            }
        }
        println!("{interpreter}: {count} of {} members", members.len());
        assert!(count > 6, "{interpreter}");
        confirmed += 1;
    }
    assert!(confirmed > 0);
}

/// The fields in which two layouts differ.
fn differences(one: &Layout, other: &Layout) -> Vec<String> {
    let (one, other) = (format!("{one:#?}"), format!("{other:#?}"));
    let pairs = one.lines().zip(other.lines());
    pairs
        .filter(|(one, other)| one != other)
        .map(|(one, other)| format!("{} / {}", one.trim(), other.trim()))
        .collect()
}

/// The sources that must be available for an interpreter.
fn expected_sources(process: &Process, python: &Interpreter) -> Vec<LayoutSource> {
    let mut expected = Vec::new();
    let series = series_of(python.version).unwrap();
    if series.debug_offsets.is_some() {
        expected.push(LayoutSource::DebugOffsets);
    }
    if !python.flavour.is_debug {
        expected.push(LayoutSource::Table);
    }
    let image = process.open_in_root(&python.image).unwrap();
    let has_symbols = Elf::read(image).unwrap().section(".debug_info").is_some();
    // Debug builds are installed with their symbols.
    if has_symbols || python.flavour.is_debug {
        expected.push(LayoutSource::Dwarf);
    }
    expected
}

fn start(interpreter: &interpreters::Interpreter) -> Child {
    let mut child = child::start(
        Command::new(&interpreter.path)
            .args([
                "-s",
                "-c",
                "import sys; sys.stdout.write('!'); sys.stdout.flush(); sys.stdin.read()",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut started = [0];
    let output = child.stdout.as_mut().unwrap();
    output.read_exact(&mut started).unwrap();
    child
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
