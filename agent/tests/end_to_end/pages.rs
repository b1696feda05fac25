//! Programs whose executable is not in the page cache, so that the BPF program cannot read it.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    process::Command,
};

use rustix::fs::{Advice, fadvise};
use tempfile::TempDir;
use xtask::{
    interpreters::{Interpreter, Linkage},
    process::capture,
};

use super::{
    folded::{Frame, NO_PYTHON, is_marked, names},
    machine,
    program::{Program, assert_spun},
};

/// At most one in this many samples may be incomplete because of a missing page.
const SAMPLES_FOR_ONE_INCOMPLETE: u64 = 20;

#[test]
fn stacks_with_pages_that_are_not_in_memory_are_complete() {
    let _machine = machine::alone();
    machine::for_each_that(is_easily_copied, |interpreter| {
        let copied = Copied::new(interpreter);
        copied.drop_pages();
        let program = Program::of(&copied.interpreter, "frozen", &[]);
        let (status, folded) = program.profile(&[]);
        assert_eq!(status.code(), Some(7));
        assert_spun(folded.iter());
        let is_frozen = |frame: &Frame| frame.place == "<frozen importlib._bootstrap>";
        let is_not_frozen =
            |stack: &[Frame]| names(stack).ends_with(&["spin"]) && !stack.iter().any(is_frozen);
        assert_eq!(folded.show(is_not_frozen), "");

        let is_incomplete =
            |stack: &[Frame]| is_marked(stack) && !names(stack).contains(&NO_PYTHON);
        let incomplete = folded.count(is_incomplete);
        println!(
            "{}: {incomplete} incomplete of {} samples",
            interpreter.name,
            folded.total()
        );
        assert!(
            incomplete * SAMPLES_FOR_ONE_INCOMPLETE < folded.total(),
            "{}",
            folded.show(is_incomplete)
        );
    });
}

/// Whether the interpreter is in one file of this machine.
fn is_easily_copied(interpreter: &Interpreter) -> bool {
    interpreter.linkage == Linkage::Static && interpreter.root().is_none()
}

/// A copy of an interpreter that no other process runs.
struct Copied {
    interpreter: Interpreter,
    _folder: TempDir,
}

impl Copied {
    fn new(interpreter: &Interpreter) -> Self {
        let script = "import os, sys; print(os.path.realpath(sys.executable)); \
                        print(os.path.dirname(os.path.dirname(os.__file__)))";
        let output = capture(Command::new(&interpreter.path).args(["-Esc", script])).unwrap();
        let (program, libraries) = output.split_once('\n').unwrap();
        let folder = tempfile::tempdir().unwrap();
        // The directory in which it searches its modules.
        symlink(libraries, folder.path().join("lib")).unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        let path = programs.join(Path::new(program).file_name().unwrap());
        fs::copy(program, &path).unwrap();
        Self {
            interpreter: Interpreter {
                path,
                ..interpreter.clone()
            },
            _folder: folder,
        }
    }

    fn drop_pages(&self) {
        let file = File::open(&self.interpreter.path).unwrap();
        // Only clean pages are dropped.
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut fincore = Command::new("fincore");
        fincore.args(["--raw", "--noheadings", "--output", "pages"]);
        let pages = capture(fincore.arg(&self.interpreter.path)).unwrap();
        assert_eq!(pages, "0");
    }
}
