//! Complete stacks: native, kernel and Python frames.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use xtask::{process::capture, tools};

use super::{
    capture::{Capture, Running},
    folded::{Folded, Frame, NO_NATIVE},
    machine,
    target::{Target, mortal},
};

/// At most one in this many samples may lack native frames, or be between two functions.
const SAMPLES_FOR_ONE_INCOMPLETE: u64 = 50;

/// Samples that are enough to estimate shares.
const ENOUGH: u64 = 200;

fn is_enough(folded: &Folded) -> bool {
    folded.total() >= ENOUGH
}

#[test]
fn callbacks_are_next_to_their_callers() {
    let _machine = machine::shared();
    machine::for_each_interpreter(|interpreter| {
        let target = Target::start(interpreter, "callbacks");
        let folded = capture_all_frames(target.pid());
        // Python functions called by C code, which was called by Python.
        let callers = [("middle", "main"), ("leaf", "middle")];
        for (called, caller) in callers {
            let is_next_to_caller = |stack: &[Frame]| {
                let position = stack.iter().position(|frame| frame.name == called);
                position.is_none_or(|position| {
                    let native = stack[..position]
                        .iter()
                        .rev()
                        .take_while(|frame| frame.is_native());
                    let native = native.count();
                    native != 0 && stack[position - native - 1].name == caller
                })
            };
            assert_few(&folded, |stack| !is_next_to_caller(stack));
        }
        // The C library musl has no call-frame information: the caller of `main` is unknown.
        if interpreter.name != "3.13-musl" {
            assert_complete(&folded);
        }
    });
}

#[test]
fn time_in_c_and_in_the_kernel_is_attributed() {
    let _machine = machine::alone();
    machine::for_each_representative(|interpreter| {
        let target = Target::start(interpreter, "in_c");
        let folded = capture_all_frames(target.pid());
        let of = |name: &'static str| {
            move |stack: &[Frame]| stack.iter().any(|frame| frame.name == name)
        };
        let leaf_is = |predicate: fn(&Frame) -> bool| {
            move |stack: &[Frame]| stack.last().is_some_and(predicate)
        };
        let (compress, read) = (folded.count(of("compress")), folded.count(of("read")));
        assert!(compress != 0 && read != 0, "{}", folded.show(|_| true));
        let in_c = folded.count(|stack| of("compress")(stack) && !leaf_is(Frame::is_python)(stack));
        assert!(
            in_c * 10 >= compress * 9,
            "{in_c} of {compress} samples are in C"
        );
        let in_kernel = folded.count(|stack| of("read")(stack) && leaf_is(Frame::is_kernel)(stack));
        assert!(
            in_kernel * 2 >= read,
            "{in_kernel} of {read} samples are in the kernel"
        );
        // Kernel frames are the innermost: the C library calls the kernel.
        let is_in_order = |stack: &[Frame]| {
            let kernel = stack
                .iter()
                .position(Frame::is_kernel)
                .unwrap_or(stack.len());
            stack[kernel..].iter().all(Frame::is_kernel)
        };
        assert_eq!(folded.show(|stack| !is_in_order(stack)), "");
        assert_complete(&folded);
    });
}

#[test]
fn with_no_native_there_are_only_python_frames() {
    let _machine = machine::shared();
    let target = Target::start(machine::one_interpreter(), "in_c");
    let folded = Capture::whole(target.pid(), "-d 1 -r 499 --no-native");
    let is_python = |stack: &[Frame]| stack.iter().all(Frame::is_python);
    assert_eq!(folded.show(|stack| !is_python(stack)), "");
}

#[test]
fn a_program_without_python_and_frame_pointers_has_complete_stacks() {
    let _machine = machine::shared();
    let directory = TempDir::new().unwrap();
    for flags in [
        "-O2 -fomit-frame-pointer",
        "-O0",
        "-O2 -static",
        "-O2 -static-pie",
        "-O2 -s",
    ] {
        let program = compile(&directory, "chain", flags);
        let target = Target::from_command(mortal(&program));
        let folded = capture_all_frames(target.pid());
        assert_complete(&folded);
        if flags.contains("-s") && !flags.contains("static") {
            continue;
        }
        let chain = ["main", "outer", "variable", "large", "leaf"];
        let is_chain = |stack: &[Frame]| {
            let names: Vec<_> = stack
                .iter()
                .map(|frame| frame.name.trim_end_matches("_[i]"))
                .collect();
            names.windows(chain.len()).any(|names| names == chain)
        };
        assert_few(&folded, |stack| {
            stack.iter().any(|frame| frame.name == "leaf") && !is_chain(stack)
        });
        assert!(
            folded.count(is_chain) * 2 > folded.total(),
            "{flags}: {}",
            folded.show(|_| true)
        );
    }
}

/// Its table takes a while to compile, and is there when sampling starts.
#[test]
fn the_first_stacks_in_a_large_library_are_complete() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let target = start_large_file(&directory);
    let folded = Capture::whole(target.pid(), "-d 1 -r 499");
    let is_in_leaf = |stack: &[Frame]| stack.last().is_some_and(|frame| frame.name == "leaf");
    assert!(
        folded.count(is_in_leaf) > ENOUGH,
        "{}",
        folded.show(|_| true)
    );
    let is_called = |stack: &[Frame]| {
        let names: Vec<_> = stack.iter().map(|frame| &*frame.name).collect();
        names.contains(&"work") && names.ends_with(&["compute", "leaf"])
    };
    assert_few(&folded, |stack| is_in_leaf(stack) && !is_called(stack));
}

/// As a program does that imports packages: none of them is known to the agent when it is sampled first.
#[test]
fn stacks_in_libraries_that_were_just_loaded_are_whole() {
    let _machine = machine::alone();
    let directory = TempDir::new().unwrap();
    let library = compile(
        &directory,
        "chain",
        "-O2 -fomit-frame-pointer -shared -fPIC",
    );
    let arguments = [library.to_str().unwrap().to_owned(), "20".to_owned()];
    machine::for_each_kind(|interpreter| {
        let mut target = Target::start_with(interpreter, "loaded_often", &arguments);
        let pid = target.pid().to_string();
        let mut running = Running::start(&[
            "-p", &pid, "-d", "3", "-r", "499", "-f", "folded", "-o", "-",
        ]);
        running.wait_until_sampling();
        target.send_line("go on");
        let capture = running.finish();
        capture.assert_success();
        let folded = Folded::parse_whole(&String::from_utf8(capture.output).unwrap());
        let is_in_library = |stack: &[Frame]| stack.iter().any(|frame| frame.name == "leaf");
        let is_whole = |stack: &[Frame]| {
            let names: Vec<_> = stack.iter().map(|frame| &*frame.name).collect();
            let outer = names.iter().position(|name| *name == "outer");
            let (callers, inside) = names.split_at(outer.unwrap_or(names.len()));
            // The kernel may have interrupted the leaf.
            inside.starts_with(&["outer", "variable", "large", "leaf"])
                && callers.contains(&"main")
                && callers.contains(&"work")
                && !is_incomplete(stack)
        };
        let (inside, whole) = (folded.count(is_in_library), folded.count(is_whole));
        assert!(inside > ENOUGH / 4, "{}", folded.show(|_| true));
        assert!(
            whole * 100 >= inside * 99,
            "{whole} of {inside}: {}",
            folded.show(|stack| is_in_library(stack) && !is_whole(stack))
        );
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_generated_at_run_time_has_the_name_from_its_generator() {
    let _machine = machine::shared();
    machine::for_each_that(
        |interpreter| interpreter.name == "3.12" || interpreter.name == "3.8",
        |interpreter| {
            let target = Target::start(interpreter, "made_at_run_time");
            let folded = capture_all_frames(target.pid());
            let is_generated = |stack: &[Frame]| {
                stack
                    .last()
                    .is_some_and(|frame| frame.name.starts_with("made by hand"))
            };
            let is_called = |stack: &[Frame]| {
                is_generated(stack) && stack.iter().any(|frame| frame.name == "work")
            };
            let (made, called) = (folded.count(is_generated), folded.count(is_called));
            assert!(made * 2 > folded.total(), "{}", folded.show(|_| true));
            assert!(called * 20 >= made * 19, "{}", folded.show(is_generated));
        },
    );
}

/// Stacks of a process with all frames, enough of them to estimate shares.
fn capture_all_frames(pid: u32) -> Folded {
    let mut folded = Folded::default();
    for _ in 0..8 {
        folded.add(Capture::whole(pid, "-d 1 -r 499"));
        if is_enough(&folded) {
            break;
        }
    }
    folded
}

/// Asserts that nearly all stacks lead to the entry of their process or thread.
fn assert_complete(folded: &Folded) {
    assert_few(folded, |stack| {
        stack.iter().any(|frame| frame.name.starts_with(NO_NATIVE))
    });
}

/// Whether something is missing from a stack.
fn is_incomplete(stack: &[Frame]) -> bool {
    let mut names = stack.iter().map(|frame| &*frame.name);
    names.any(|name| name.contains("unknown"))
}

fn assert_few(folded: &Folded, predicate: impl Fn(&[Frame]) -> bool) {
    let selected = folded.count(&predicate);
    assert!(
        selected * SAMPLES_FOR_ONE_INCOMPLETE <= folded.total(),
        "{selected} of {} samples: {}",
        folded.total(),
        folded.show(&predicate)
    );
}

/// A process with a library that has more call-frame information than is read before it is needed.
pub(super) fn start_large_file(directory: &TempDir) -> Target {
    let library = [compile_large_file(directory).to_str().unwrap().to_owned()];
    Target::start_with(machine::one_interpreter(), "large_file", &library)
}

/// Compiles the library of the workload `large_file`.
pub(super) fn compile_large_file(directory: &TempDir) -> PathBuf {
    let library = compile(
        directory,
        "large_file",
        "-O1 -fomit-frame-pointer -shared -fPIC",
    );
    let size = fs::metadata(&library).unwrap().len();
    assert!(size > 6 << 20, "{size} bytes");
    library
}

/// Compiles a program or a library.
pub(super) fn compile(directory: &TempDir, name: &str, flags: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/end_to_end/workloads")
        .join(name)
        .with_extension("c");
    let output = directory
        .path()
        .join(format!("{name}{}", flags.replace([' ', '='], "")));
    let mut compiler = tools::GCC.command();
    compiler
        .args(flags.split(' '))
        .arg(source)
        .arg("-o")
        .arg(&output);
    capture(&mut compiler).unwrap_or_else(|error| panic!("{error:#}"));
    output
}
