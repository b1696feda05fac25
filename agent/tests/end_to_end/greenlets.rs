//! Stacks that are switched by a library.

use std::path::{Path, PathBuf};

use xtask::interpreters::Interpreter;

use super::{
    capture::Capture,
    folded::{Folded, Frame, NO_NATIVE, is_marked, names},
    machine,
    packages::python_packages,
    target::Target,
};

/// Versions in which the frames of greenlets are stored differently.
pub(crate) const INTERPRETERS: [&str; 4] = ["3.10", "3.11", "3.12", "3.13"];

/// Those of them which are enough: frames are elsewhere in 3.10, and 3.12 is the last version with a `_PyCFrame`.
pub(crate) const FEW_INTERPRETERS: [&str; 2] = ["3.10", "3.12"];

/// Requirement specifiers of the libraries, and of what they require.
const LIBRARIES: [&str; 6] = [
    "greenlet==3.5.6",
    "gevent==26.9.0",
    "zope.interface==8.6",
    "zope.event==6.2",
    "eventlet==0.41.3",
    "uvloop==0.23.0",
];

/// The libraries that switch between tasks, as the workload names them.
const SWITCHING: [&str; 4] = ["greenlet", "gevent", "eventlet", "uvloop"];

/// Samples that are enough to estimate shares.
const ENOUGH: u64 = 1_000;

/// At most one in this many samples may lack native frames: a stack that is being copied has none.
const SAMPLES_FOR_ONE_WITHOUT_NATIVE: u64 = 50;

/// One sample in this many may be incomplete: the chain of frames is broken while the library
/// switches.
const SAMPLES_FOR_ONE_INCOMPLETE: u64 = 20;

#[test]
fn stacks_of_greenlets_are_never_mixed() {
    let _machine = machine::alone();
    machine::for_some_named(&INTERPRETERS, &FEW_INTERPRETERS, |interpreter| {
        let libraries = libraries(interpreter);
        let environment = environment(&libraries);
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

#[test]
fn native_frames_of_tasks_that_take_turns_are_complete() {
    let _machine = machine::alone();
    machine::for_some_named(&INTERPRETERS, &FEW_INTERPRETERS, |interpreter| {
        let libraries = libraries(interpreter);
        let environment = environment(&libraries);
        for library in SWITCHING {
            let arguments = [library.to_owned()];
            let target = Target::start_in(interpreter, "cooperative", &arguments, &environment);
            let mut folded = Folded::default();
            for _ in 0..8 {
                folded.add(Capture::whole(target.pid(), "-d 2 -r 999"));
                if folded.total() >= ENOUGH {
                    break;
                }
            }
            let lacks_native =
                |stack: &[Frame]| stack.iter().any(|frame| frame.name.starts_with(NO_NATIVE));
            let (without, all) = (folded.count(lacks_native), folded.total());
            println!(
                "{}: {library}: {without} of {all} samples lack native frames",
                interpreter.name
            );
            assert!(
                without * SAMPLES_FOR_ONE_WITHOUT_NATIVE <= all,
                "{library}: {}",
                folded.show(lacks_native)
            );
            // What a task runs is whole, from its entry on.
            let works = |stack: &[Frame]| names(stack).contains(&"work");
            let is_entered = |stack: &[Frame]| {
                let is_entry = |frame: &Frame| frame.name.contains("g_initialstub");
                let has_entry = stack.first().is_some_and(is_entry);
                works(stack) && has_entry == (library != "uvloop")
            };
            let (working, entered) = (folded.count(works), folded.count(is_entered));
            assert!(working * 2 > all, "{}", folded.show(|_| true));
            assert!(
                entered * 20 >= working * 19,
                "{library}: {entered} of {working}: {}",
                folded.show(works)
            );
        }
    });
}

/// Where an interpreter's libraries are.
pub(crate) fn libraries(interpreter: &Interpreter) -> PathBuf {
    python_packages(interpreter, "cooperative", &LIBRARIES)
}

/// The environment of a process with these libraries.
pub(crate) fn environment(libraries: &Path) -> [(&'static str, &str); 2] {
    [
        ("PYTHONPATH", libraries.to_str().unwrap()),
        // It would require another library.
        ("EVENTLET_NO_GREENDNS", "yes"),
    ]
}
