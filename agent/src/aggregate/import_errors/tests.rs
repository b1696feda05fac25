use agent_common::{
    decoded::Stack,
    record::{Frame, FrameKind, NativeFrame},
};

use super::is_internal;
use crate::{
    profile::{FrameKind as ProfileFrameKind, Function},
    symbolize::{SymbolizeFrames, SymbolizedNativeFrame, SymbolizedPythonFrame},
};

const BOOTSTRAP: &str = "<frozen importlib._bootstrap>";
const EXTERNAL: &str = "<frozen importlib._bootstrap_external>";

/// Functions and files, by the position of the frame.
struct Functions<'a>(&'a [(&'a str, &'a str)]);

impl SymbolizeFrames for Functions<'_> {
    fn python(&mut self, frame: &Frame) -> Option<SymbolizedPythonFrame> {
        let (name, file) = *self.0.get(usize::try_from(frame.symbol).ok()?)?;
        Some(SymbolizedPythonFrame {
            function: Function {
                name: name.to_owned(),
                file: file.to_owned(),
                first_line: None,
                kind: ProfileFrameKind::Python,
            },
            line: None,
        })
    }

    fn native(&mut self, _: u32, _: &NativeFrame) -> SymbolizedNativeFrame {
        unreachable!("these stacks have no native frames")
    }
}

/// Whether an exception in a stack of these functions, leaf first, is left out.
fn left_out(class: &str, functions: &[(&str, &str)]) -> bool {
    let frames = (0..).zip(functions).map(|(symbol, _)| Frame {
        symbol,
        instruction_offset: 0,
        kind: FrameKind::PYTHON,
    });
    let stack = Stack {
        hash: 1,
        frames: frames.collect(),
        gap: None,
    };
    is_internal(class, &stack, &mut Functions(functions))
}

#[test]
fn a_missing_module_counts_where_it_is_imported() {
    let missing = [
        ("_find_and_load_unlocked", BOOTSTRAP),
        ("_find_and_load", BOOTSTRAP),
        ("<module>", "/srv/app.py"),
    ];
    assert!(left_out("ModuleNotFoundError", &missing));
    assert!(!left_out("KeyError", &missing), "its traceback stays");
    assert!(
        !left_out("ModuleNotFoundError", &missing[2..]),
        "this is where it comes up"
    );
}

#[test]
fn an_attempt_for_a_name_is_no_exception_of_the_program() {
    let attempt = [
        ("_find_and_load_unlocked", BOOTSTRAP),
        ("_find_and_load", BOOTSTRAP),
        ("_call_with_frames_removed", BOOTSTRAP),
        ("_handle_fromlist", BOOTSTRAP),
        ("<module>", "/srv/app.py"),
    ];
    assert!(left_out("ModuleNotFoundError", &attempt));
    assert!(
        left_out("ModuleNotFoundError", &attempt[2..]),
        "that is cut off too"
    );
}

#[test]
fn what_a_module_does_has_the_traceback_of_the_module() {
    let syntax_error = [
        ("_call_with_frames_removed", BOOTSTRAP),
        ("SourceLoader.source_to_code", EXTERNAL),
        ("SourceLoader.get_code", EXTERNAL),
        ("_LoaderBasics.exec_module", EXTERNAL),
        ("_load_unlocked", BOOTSTRAP),
        ("_find_and_load_unlocked", BOOTSTRAP),
        ("_find_and_load", BOOTSTRAP),
        ("<module>", "/srv/app.py"),
    ];
    assert!(left_out("SyntaxError", &syntax_error));
    assert!(
        !left_out("SyntaxError", &syntax_error[1..]),
        "nothing before the call is removed"
    );
    let in_module = [("<module>", "/srv/broken.py"), syntax_error[0]];
    assert!(!left_out("ImportError", &in_module));
}

#[test]
fn what_python_code_imports_by_name_is_not_cut_off() {
    let by_name = [
        ("_find_and_load_unlocked", BOOTSTRAP),
        ("_find_and_load", BOOTSTRAP),
        ("_gcd_import", BOOTSTRAP),
        ("import_module", "/usr/lib/python3.12/importlib/__init__.py"),
    ];
    assert!(!left_out("ModuleNotFoundError", &by_name));
}

#[test]
fn a_function_of_the_same_name_elsewhere_is_not_of_the_import_system() {
    assert!(!left_out(
        "ImportError",
        &[("_find_and_load", "/srv/loader.py")]
    ));
    assert!(!left_out("ImportError", &[]));
}

#[test]
fn what_the_import_system_tries_and_catches_is_left_out() {
    let lock = [
        ("_get_module_lock", BOOTSTRAP),
        ("_find_and_load", BOOTSTRAP),
    ];
    assert!(left_out("KeyError", &lock));
    let folder = [
        ("FileFinder._fill_cache", EXTERNAL),
        ("FileFinder.find_spec", EXTERNAL),
    ];
    assert!(left_out("FileNotFoundError", &folder));
    let unreadable = [
        ("FileLoader.get_data", EXTERNAL),
        ("SourceLoader.get_code", EXTERNAL),
        ("_find_and_load", BOOTSTRAP),
    ];
    assert!(
        !left_out("PermissionError", &unreadable),
        "it may leave the import system"
    );
}
