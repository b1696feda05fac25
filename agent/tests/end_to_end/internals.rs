//! Internals of the interpreter, left out or not.

use super::{capture::Capture, folded::Frame, machine, target::Target};

/// Functions of each version by which it runs a Python function.
const LOOPS: [&str; 4] = [
    "_PyEval_EvalFrameDefault",
    "PyEval_EvalFrameEx",
    "_PyEval_Vector",
    "PyEval_EvalCodeEx",
];

/// Functions of each version by which it runs a program. Static builds name them too, whose loop may be of
/// local functions.
const PROGRAMS: [&str; 3] = ["Py_RunMain", "Py_BytesMain", "Py_Main"];

fn is_loop(frame: &Frame) -> bool {
    LOOPS.contains(&&*frame.name)
}

/// Whether a stack has Python functions: else it is of a thread that is about to begin or to end, or incomplete.
fn is_python(stack: &[Frame]) -> bool {
    let is_function = |frame: &Frame| frame.is_python() && !frame.place.is_empty();
    stack.iter().any(is_function)
}

#[test]
fn a_stack_begins_with_the_program() {
    let _machine = machine::shared();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "mixed");
        let hidden = Capture::whole(target.pid(), "-d 2 -r 299 --no-internals");
        let count = hidden.count(is_python);
        assert!(count > 50, "{count} of {}", hidden.total());
        let begins_otherwise = |stack: &[Frame]| is_python(stack) && !stack[0].is_python();
        let shown = hidden.show(begins_otherwise);
        assert_eq!(hidden.count(begins_otherwise), 0, "{shown}");
        let has_loop = |stack: &[Frame]| is_python(stack) && stack.iter().any(is_loop);
        assert_eq!(hidden.count(has_loop), 0, "{}", hidden.show(has_loop));
    });
}

#[test]
fn a_flame_graph_and_a_summary_are_about_the_program() {
    let _machine = machine::shared();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "mixed");
        let pid = target.pid().to_string();
        let capture = |more: &[&str]| {
            let mut line = vec!["-p", &*pid, "-d", "1", "-r", "299", "-f", "svg", "-o", "-"];
            line.extend(more);
            let capture = Capture::run(&line);
            capture.assert_success();
            (String::from_utf8(capture.output).unwrap(), capture.messages)
        };
        let runs_programs = |svg: &str| {
            let titles = PROGRAMS.map(|name| format!("<title>{name} ("));
            titles.iter().any(|title| svg.contains(title))
        };
        // Its file is the place of a function in the table.
        let has_interpreter =
            |summary: &str| summary.contains("  libpython") || summary.contains("  python");
        let (svg, summary) = capture(&[]);
        assert!(
            svg.contains("<title>&lt;module&gt; ("),
            "{}",
            interpreter.name
        );
        assert!(!has_interpreter(&summary), "{summary}");
        let (whole_svg, whole_summary) = capture(&["--internals"]);
        assert!(runs_programs(&whole_svg), "{}", interpreter.name);
        assert!(has_interpreter(&whole_summary), "{whole_summary}");
    });
}
