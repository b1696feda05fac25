//! Interpreters without a table.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use agent::testing::{
    binaries::elf::Elf,
    process::Process,
    python::{
        Detector, Error, Interpreter,
        inspect::UnsupportedReason,
        layouts::{LayoutSource, RejectionReason},
    },
};
use xtask::interpreters;

use crate::{Answer, Memory, end, program_for, start};

/// `PY_VERSION_HEX` of a version that does not exist.
const NEXT_VERSION: u64 = 0x0310_00f0;

/// The libraries with `Py_Version`, and their interpreters.
fn libraries() -> Vec<(PathBuf, Interpreter)> {
    let found = interpreters::all()
        .unwrap()
        .into_iter()
        .filter_map(|interpreter| {
            let program = program_for(&interpreter.path);
            let (child, _) = start(Command::new(&interpreter.path), program, "main");
            let process = Process::open(child.id()).unwrap();
            let python = Detector::default().detect(&process).unwrap();
            let is_elsewhere = process.has_own_mounts().unwrap();
            end(child);
            let is_library = python.image != python.images[0].path;
            (is_library && !is_elsewhere).then_some((interpreter.path, python))
        });
    let found: Vec<_> = found.collect();
    assert!(!found.is_empty());
    found
}

/// Copies a library and overwrites 8 bytes of its symbol `name`; [`None`] if there is no such
/// symbol.
fn patch(library: &Path, into: &Path, name: &str, at: usize, value: u64) -> Option<()> {
    let mut bytes = fs::read(library).unwrap();
    let elf = Elf::read(bytes.as_slice()).unwrap();
    let symbol = elf.symbol(name).unwrap()?;
    let offset = elf.segments().file_offset(symbol.address, 8)?;
    let start = usize::try_from(offset).unwrap() + at;
    bytes[start..start + 8].copy_from_slice(&value.to_le_bytes());
    fs::write(into, bytes).unwrap();
    Some(())
}

/// Detects an interpreter that is loaded with another library.
fn detect_with(
    library: &Path,
    interpreter: &Path,
    check: impl FnOnce(&std::process::Child, &Answer, Result<Interpreter, Error>),
) {
    let mut command = Command::new(interpreter);
    command.env("LD_PRELOAD", library);
    let (child, answer) = start(command, program_for(interpreter), "main");
    let process = Process::open(child.id()).unwrap();
    check(&child, &answer, Detector::default().detect(&process));
    end(child);
}

#[test]
fn a_version_newer_than_all_tables_is_read_from_its_symbols() {
    let directory = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for (path, python) in libraries() {
        // The nearest table.
        if !(python.version.major == 3 && python.version.minor >= 13) {
            continue;
        }
        let library = directory.path().join(python.image.file_name().unwrap());
        patch(&python.image, &library, "Py_Version", 0, NEXT_VERSION).unwrap();
        detect_with(&library, &path, |child, answer, found| {
            let found = found.unwrap();
            assert_eq!(found.version.to_string(), "3.16.0");
            assert_eq!(found.layout_source, LayoutSource::Dwarf);
            let why: Vec<_> = found.rejected_sources.iter().map(|it| it.reason).collect();
            assert_eq!(why, [RejectionReason::NoTable; 2]);
            Memory::of(child, &found).check(answer);
        });

        let stripped = directory.path().join("stripped.so");
        let mut strip = Command::new("strip");
        strip.arg(&library).arg("-o").arg(&stripped);
        assert!(strip.status().unwrap().success());
        detect_with(&stripped, &path, |_, _, found| {
            let error = found.unwrap_err();
            assert!(error.to_string().contains("install them"), "{error}");
            let Error::Unsupported { found, .. } = error else {
                unreachable!("{error}");
            };
            assert_eq!(found.reason, UnsupportedReason::NewVersion);
        });
        checked += 1;
    }
    assert!(checked > 0);
}

#[test]
fn wrong_debug_offsets_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    for (path, python) in libraries() {
        if python.layout_source != LayoutSource::DebugOffsets {
            continue;
        }
        let library = directory.path().join(python.image.file_name().unwrap());
        // The offset of the list of interpreters, and the version.
        for (at, value) in [(40, u64::MAX - 7), (8, NEXT_VERSION), (0, 0)] {
            patch(&python.image, &library, "_PyRuntime", at, value).unwrap();
            detect_with(&library, &path, |child, answer, found| {
                let found = found.unwrap();
                assert_eq!(found.layout_source, LayoutSource::Table);
                assert_eq!(found.layout, python.layout);
                assert!(matches!(
                    found.rejected_sources.first().unwrap().reason,
                    RejectionReason::DebugOffsets(_)
                ));
                Memory::of(child, &found).check(answer);
            });
        }
    }
}

/// A stripped debug build is recognised by its name.
#[test]
fn a_debug_build_without_symbols_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for interpreter in interpreters::all().unwrap() {
        let program = program_for(&interpreter.path);
        let (child, _) = start(Command::new(&interpreter.path), program, "main");
        let process = Process::open(child.id()).unwrap();
        let python = Detector::default().detect(&process).unwrap();
        let is_alone = python.image == python.images[0].path;
        let is_elsewhere = process.has_own_mounts().unwrap();
        end(child);
        if is_elsewhere || !is_alone || python.layout_source == LayoutSource::DebugOffsets {
            continue;
        }
        let series = format!("python{}.{}d", python.version.major, python.version.minor);
        let renamed = directory.path().join(series);
        let mut copy = Command::new("strip");
        copy.arg(&python.image).arg("-o").arg(&renamed);
        assert!(copy.status().unwrap().success());
        let mut command = Command::new(&renamed);
        command.env("PYTHONHOME", python.image.ancestors().nth(2).unwrap());
        let (child, _) = start(command, program, "main");
        let process = Process::open(child.id()).unwrap();
        let error = Detector::default().detect(&process).unwrap_err();
        end(child);
        assert!(error.to_string().contains("a debug build of"), "{error}");
        assert!(error.to_string().contains("install them"), "{error}");
        checked += 1;
    }
    assert!(checked > 0);
}
