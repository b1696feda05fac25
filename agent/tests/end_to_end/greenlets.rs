//! Stacks that are switched by a library.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use xtask::{interpreters::Interpreter, process::capture};

use super::{
    capture::Capture,
    folded::{Folded, Frame, is_marked, names},
    machine,
    target::Target,
};

/// Versions in which the frames of greenlets are stored differently.
const INTERPRETERS: [&str; 4] = ["3.10", "3.11", "3.12", "3.13"];

/// Requirement specifier of the library.
const LIBRARY: &str = "greenlet==3.5.6";

/// One sample in this many may be incomplete: the chain of frames is broken while the library
/// switches.
const SAMPLES_FOR_ONE_INCOMPLETE: u64 = 20;

#[test]
fn stacks_of_greenlets_are_never_mixed() {
    let _machine = machine::alone();
    machine::for_each_named(&INTERPRETERS, |interpreter| {
        let library = installed(interpreter);
        let library = library.to_str().unwrap();
        let environment = [("PYTHONPATH", library)];
        let target = Target::start_in(interpreter, "greenlets", &[], &environment);
        let is_enough = |folded: &Folded| folded.total() >= 4_000;
        let folded = Capture::folded_until(target.pid(), "-d 1 -r 4999", is_enough);
        for side in ["left", "right"] {
            let work = format!("{side}_work");
            let stack = [side, &work];
            assert_ne!(folded.count(|found| names(found) == stack), 0, "{side}");
        }
        let is_mixed = |stack: &[Frame]| {
            let has = |side| names(stack).iter().any(|name| name.starts_with(side));
            has("left") && has("right")
        };
        assert_eq!(folded.show(is_mixed), "");
        let marked = folded.count(is_marked);
        println!(
            "{}: {marked} incomplete of {} samples",
            interpreter.name,
            folded.total()
        );
        assert!(
            marked * SAMPLES_FOR_ONE_INCOMPLETE <= folded.total(),
            "{}",
            folded.show(is_marked)
        );
    });
}

/// The folder of the library, which is downloaded if it does not exist.
fn installed(interpreter: &Interpreter) -> PathBuf {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{LIBRARY}-{}", interpreter.name));
    if !directory.exists() {
        // Renamed when it is complete.
        let unfinished = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut pip = Command::new(&interpreter.path);
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps"])
            .args(["--only-binary", ":all:", LIBRARY, "--target"])
            .arg(unfinished.path());
        capture(&mut pip).unwrap_or_else(|error| panic!("{error:#}"));
        fs::rename(unfinished.keep(), &directory).unwrap();
    }
    directory
}
