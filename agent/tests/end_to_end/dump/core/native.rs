//! Native frames of core dumps: between Python frames, of calls to nowhere, and of files that are gone.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use xtask::tools::GCC;

use super::{ABORT, Crash, Pattern, SEGMENTATION_FAULT, json, run, text};
use crate::{
    dump::output::{frames, threads_of},
    machine,
};

/// Stands for the frames behind one in a file that is not there.
const MISSING: &str = "[native frames unknown: the file is missing or has changed]";

/// A library that calls back.
fn build_library(path: &Path, code: &str) {
    let folder = path.parent().unwrap();
    let source = folder.join("library.c");
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new(GCC.path());
    compiler.args(["-O1", "-g", "-shared", "-fPIC", "-o"]);
    let status = compiler.arg(path).arg(&source).status().unwrap();
    assert!(status.success());
}

/// The functions of a thread, the innermost first; of nameless frames their files.
fn names(thread: &Value) -> Vec<&str> {
    let names = frames(thread).iter().map(|frame| {
        let name = frame["function"].as_str();
        name.or(frame["executable"].as_str()).unwrap()
    });
    names.collect()
}

/// Whether these functions are among others in this order.
fn assert_in_order(names: &[&str], expected: &[&str]) {
    let mut left = names.iter();
    for name in expected {
        assert!(left.any(|it| it == name), "{name}: {names:?}");
    }
}

#[test]
fn callbacks_and_libraries_are_in_their_order_and_end_where_a_file_is_gone() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let folder = tempfile::tempdir().unwrap();
    let code = "void calls_back(void (*f)(void)) { f(); __asm__ volatile(\"\"); }\n";
    for name in ["2.7", "3.8", "3.12"] {
        let library = folder.path().join(format!("library-{name}.so"));
        build_library(&library, code);
    }
    machine::for_each_named(&["2.7", "3.8", "3.12"], |interpreter| {
        let library = folder
            .path()
            .join(format!("library-{}.so", interpreter.name));
        let code = format!(
            "
import ctypes

library = ctypes.CDLL({:?})

def aborts():
    os.abort()

callback = ctypes.CFUNCTYPE(None)(aborts)

def calls():
    library.calls_back(callback)

calls()
",
            library.to_str().unwrap()
        );
        let crash = Crash::of_code(&interpreter.path, &code, ABORT);
        let path = crash.path();
        let [main] = &*threads_of(&json(&path, ""), crash.pid) else {
            panic!("{interpreter}");
        };
        let expected = [
            "abort",
            "aborts",
            "calls_back",
            "ffi_call",
            "calls",
            "<module>",
        ];
        let shown = names(main);
        assert_in_order(&shown, &expected);
        // What led to the crash is whole.
        if interpreter.name == "3.12" {
            assert_in_order(
                &shown,
                &["os_abort", "cfunction_vectorcall_NOARGS", "aborts"],
            );
        }
        let all = json(&path, "--internals");
        let [main] = &*threads_of(&all, crash.pid) else {
            panic!("{all:#}");
        };
        let all = names(main);
        assert_in_order(&all, &expected);
        assert_eq!(all.last(), Some(&"_start"), "{all:?}");
        assert!(all.iter().all(|name| !name.starts_with('[')), "{all:?}");
        let python = json(&path, "--no-native");
        assert_eq!(python["note"], "Python frames only");
        let [main] = &*threads_of(&python, crash.pid) else {
            panic!("{python:#}");
        };
        assert_eq!(names(main), ["aborts", "calls", "<module>"]);

        fs::remove_file(&library).unwrap();
        let document = json(&path, "--locals");
        let missing = document["core"]["missing"].as_str().unwrap();
        let file = library.file_name().unwrap().to_str().unwrap();
        assert!(
            missing.ends_with(&format!("{file} is not there")),
            "{missing}"
        );
        let [main] = &*threads_of(&document, crash.pid) else {
            panic!("{document:#}");
        };
        assert_in_order(
            &names(main),
            &["abort", "aborts", file, MISSING, "calls", "<module>"],
        );
        let calls = frames(main).iter().find(|it| it["function"] == "calls");
        assert_eq!(calls.unwrap()["locals"], Value::Array(Vec::new()));
        assert_eq!(main["locals_note"], Value::Null);
    });
}

/// As of a table of functions that was not filled: nothing is at the address, and whoever called it is known.
#[test]
fn a_call_to_nowhere_has_the_frames_of_its_caller() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let code = "
import ctypes

def calls():
    ctypes.cast(0x10, ctypes.CFUNCTYPE(None))()

calls()
";
    machine::for_each_named(&["2.7", "3.8", "3.12"], |interpreter| {
        let crash = Crash::of_code(&interpreter.path, code, SEGMENTATION_FAULT);
        let document = json(&crash.path(), "");
        assert_eq!(document["core"]["signal_address"], "0x10", "{document:#}");
        let [main] = &*threads_of(&document, crash.pid) else {
            panic!("{document:#}");
        };
        let names = names(main);
        assert_in_order(&names, &["ffi_call", "calls", "<module>"]);
        assert!(names.iter().all(|name| !name.starts_with('[')), "{names:?}");
    });
}

#[test]
fn a_program_without_python_has_native_frames() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let mut shell = Command::new("bash");
    shell.args(["-c", "ulimit -c unlimited; kill -ABRT $$"]);
    let crash = Crash::of(shell, ABORT);
    let document = json(&crash.path(), "");
    assert_eq!(document["processes"][0]["runtime"], Value::Null);
    let [main] = &*threads_of(&document, crash.pid) else {
        panic!("{document:#}");
    };
    assert_in_order(&names(main), &["kill", "kill_builtin", "main"]);
    assert!(text(&crash.path(), "").contains("\n    kill_builtin (bash)\n"));
    let capture = run(&crash.path(), "--no-native");
    assert_eq!(capture.status.code(), Some(1), "{capture:?}");
    assert!(
        capture.messages.contains("bash, which is not Python"),
        "{}",
        capture.messages
    );
}
