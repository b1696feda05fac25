//! Every offset that the kernel half is given, against the debugging information of the
//! interpreters that have it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::HashMap,
    io::Read as _,
    process::{Command, Stdio},
};

use agent::{
    process::Process,
    python::{self, Interpreter, versions::series_of},
};
use agent_common::layout::{ABSENT, Layout};
use xtask::interpreters;

#[path = "data/dwarf.rs"]
mod dwarf;

use dwarf::Structure;

/// The structures that layouts are about.
const STRUCTURES: [&str; 8] = [
    "_PyRuntimeState",
    "PyInterpreterState",
    "PyThreadState",
    "PyFrameObject",
    "PyCodeObject",
    "PyASCIIObject",
    "PyCompactUnicodeObject",
    "PyBytesObject",
];

/// Those that not every version has.
const NEWER_STRUCTURES: [&str; 2] = ["_PyCFrame", "_PyInterpreterFrame"];

#[test]
fn offsets_are_those_of_the_debugging_information() {
    for interpreter in interpreters::ensure().unwrap() {
        let python = detect(&interpreter);
        let names = [&STRUCTURES[..], &NEWER_STRUCTURES[..]].concat();
        let structures = dwarf::structures(&python.image, &names);
        if structures.is_empty() {
            println!("{interpreter}: no debugging information");
            continue;
        }
        let table = series_of(python.version).unwrap().layout;
        let truth = Truth(structures);
        let checked = truth.check(&python.layout);
        truth.check(&table);
        println!("{interpreter}: {checked} offsets are right");
    }
}

/// What detection says of a running interpreter.
fn detect(interpreter: &interpreters::Interpreter) -> Interpreter {
    let mut child = Command::new(&interpreter.path)
        .args(["-I", "-c", "print(flush=True); input()"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut started = [0];
    let output = child.stdout.as_mut().unwrap();
    output.read_exact(&mut started).unwrap();
    let python = python::detect(&Process::open(child.id()).unwrap()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    python
}

/// The structures of an interpreter by name.
struct Truth(HashMap<String, Structure>);

impl Truth {
    /// Compares every offset, and gives how many there are.
    fn check(&self, layout: &Layout) -> usize {
        let mut checked = 0;
        let mut check = |what: &str, offset: u16, truth: Option<u64>| {
            let offset = (offset != ABSENT).then_some(u64::from(offset));
            assert_eq!(offset, truth, "{what}");
            checked += usize::from(offset.is_some());
        };

        let fields = &layout.interpreter;
        let runtime = |names| self.offset("_PyRuntimeState", names);
        check("head", fields.runtime_head, runtime(&["interpreters.head"]));
        let state = |names| self.offset("PyInterpreterState", names);
        check("next", fields.next, state(&["next"]));
        let heads = ["threads.head", "tstate_head"];
        check("threads", fields.threads_head, state(&heads));

        let fields = &layout.thread;
        let state = |names| self.offset("PyThreadState", names);
        check("prev", fields.previous, state(&["prev"]));
        check("next", fields.next, state(&["next"]));
        check("interp", fields.interpreter, state(&["interp"]));
        check("thread_id", fields.thread_id, state(&["thread_id"]));
        // 3.10 has a `cframe` too, without a frame in it.
        let frames = ["frame", "current_frame", "cframe"];
        check("frame", fields.frame, state(&frames));
        let current = self.offset("_PyCFrame", &["current_frame"]);
        check("cframe", fields.cframe_current_frame, current);
        let chunk = state(&["datastack_chunk"]);
        check("chunk", fields.datastack_chunk, chunk);
        check("top", fields.datastack_top, state(&["datastack_top"]));

        let fields = &layout.frame;
        let frame = |names: &[&str]| {
            if self.0.contains_key("_PyInterpreterFrame") {
                self.offset("_PyInterpreterFrame", names)
            } else {
                self.offset("PyFrameObject", names)
            }
        };
        check("previous", fields.previous, frame(&["previous", "f_back"]));
        check("code", fields.code, frame(&["f_executable", "f_code"]));
        let positions = ["instr_ptr", "prev_instr", "f_lasti"];
        check("instruction", fields.instruction, frame(&positions));
        check("owner", fields.owner, frame(&["owner"]));
        let locals = ["localsplus", "f_localsplus"];
        check("locals", fields.locals, frame(&locals));

        let fields = &layout.code;
        let code = |names| self.offset("PyCodeObject", names);
        check("file", fields.file, code(&["co_filename"]));
        check("name", fields.name, code(&["co_qualname", "co_name"]));
        check("first", fields.first_line, code(&["co_firstlineno"]));
        let tables = ["co_linetable", "co_lnotab"];
        check("table", fields.line_table, code(&tables));
        let traceable = code(&["_co_firsttraceable"]);
        check("traceable", fields.first_traceable, traceable);
        check("bytecode", fields.bytecode, code(&["co_code_adaptive"]));

        let fields = &layout.text;
        let text = |names| self.offset("PyASCIIObject", names);
        check("length", fields.length, text(&["length"]));
        check("state", fields.state, text(&["state"]));
        let bit = |name: &str| self.0["PyASCIIObject"].members[name].bit;
        check("kind", fields.kind_bit, bit("state.kind"));
        check("compact", fields.compact_bit, bit("state.compact"));
        check("ascii", fields.ascii_bit, bit("state.ascii"));
        let size = |name: &str| Some(self.0[name].bytes);
        check("data", fields.ascii_data, size("PyASCIIObject"));
        let wide = size("PyCompactUnicodeObject");
        check("wide data", fields.compact_data, wide);
        let bytes = |names| self.offset("PyBytesObject", names);
        check("size", fields.bytes_size, bytes(&["ob_base.ob_size"]));
        check("bytes", fields.bytes_data, bytes(&["ob_sval"]));
        checked
    }

    /// The offset of the first of these members that the structure has.
    fn offset(&self, structure: &str, names: &[&str]) -> Option<u64> {
        let members = &self.0.get(structure)?.members;
        names
            .iter()
            .find_map(|name| members.get(*name))
            .map(|member| member.offset)
    }
}
