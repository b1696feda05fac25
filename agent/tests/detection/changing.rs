//! Processes that call `exec` during detection, and files that are replaced while they are mapped.

use std::{
    fs,
    process::{Command, Stdio},
};

use agent::testing::{
    process::Process,
    python::{Detector, Error},
};
use test_support::child;
use xtask::interpreters;

use crate::{Memory, end, program_for, read_answer, start};

#[test]
fn a_library_replaced_while_mapped_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    for interpreter in interpreters::all().unwrap() {
        let program = program_for(&interpreter.path);
        let (child, _) = start(Command::new(&interpreter.path), program, "main");
        let process = Process::open(child.id()).unwrap();
        let usual = Detector::default().detect(&process).unwrap();
        let is_elsewhere = process.has_own_mounts().unwrap();
        end(child);
        if is_elsewhere || usual.image == usual.images[0].path {
            continue;
        }
        for replacement in [None, Some("not the library any more")] {
            let copy = directory.path().join(usual.image.file_name().unwrap());
            fs::copy(&usual.image, &copy).unwrap();
            let mut command = Command::new(&interpreter.path);
            command.env("LD_PRELOAD", &copy);
            let (child, answer) = start(command, program, "thread");
            fs::remove_file(&copy).unwrap();
            if let Some(text) = replacement {
                fs::write(&copy, text).unwrap();
            }
            let process = Process::open(child.id()).unwrap();
            let python = Detector::default().detect(&process).unwrap();
            assert_eq!(python.image, copy);
            assert_eq!(python.layout, usual.layout);
            Memory::of(&child, &python).check(&answer);
            end(child);
        }
    }
}

#[test]
fn a_process_that_executes_another_version_is_detected() {
    let interpreters = interpreters::all().unwrap();
    let (first, second) = (&interpreters[0], &interpreters[1]);
    let mut child = child::start(
        Command::new(&first.path)
            .args([
                "-c",
                "import os, sys\n\
             os.write(1, '\\n'.encode()); sys.stdin.readline()\n\
             os.execv(sys.argv[1], sys.argv[1:])",
            ])
            .arg(&second.path)
            .args(["-s", "-c", program_for(&second.path), "main"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    child::wait_for_output(&mut child);
    let before = Process::open(child.id()).unwrap();
    let detector = Detector::default();
    let old = detector.detect(&before).unwrap();
    assert!(before.is_same_program());
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
    let answer = read_answer(&mut child);

    // The opened process is not mixed with the new program.
    assert!(!before.is_same_program());
    let error = detector.detect(&before).unwrap_err();
    assert!(matches!(
        error,
        Error::Process(agent::testing::process::Error::Replaced { .. })
    ));
    let new = detector
        .detect(&Process::open(child.id()).unwrap())
        .unwrap();
    assert_ne!(new.version, old.version);
    assert_eq!(new.version.to_string(), answer.version);
    Memory::of(&child, &new).check(&answer);
    end(child);
}

/// The second process with the same files costs little more than reading its mappings.
#[test]
fn files_are_inspected_once() {
    for interpreter in interpreters::all().unwrap() {
        let program = program_for(&interpreter.path);
        let children = [(); 2].map(|()| {
            let (child, _) = start(Command::new(&interpreter.path), program, "main");
            child
        });
        let detector = Detector::default();
        let [cold, warm] = children.map(|child| {
            let process = Process::open(child.id()).unwrap();
            let began = std::time::Instant::now();
            let python = detector.detect(&process).unwrap();
            let took = began.elapsed();
            end(child);
            (python, took, detector.files_read())
        });
        println!("{interpreter}: {:?}, then {:?}", cold.1, warm.1);
        assert!(cold.2 > 0);
        assert_eq!(warm.2, cold.2);
        assert_eq!(cold.0.layout, warm.0.layout);
        assert_eq!(cold.0.version, warm.0.version);
        assert_eq!(cold.0.is_initialised, warm.0.is_initialised);
    }
}
