//! Interpreters embedded in other programs, and in files that are hard to recognise.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use agent::testing::{process::Process, python::Detector};
use test_support::child;
use xtask::{interpreters, tools};

use crate::{Memory, PROGRAM, end, read_answer, start};

/// Folder with the sources of the programs.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/embed");

/// An interpreter that was installed with its libraries for embedding.
struct Kit {
    minor: u32,
    /// `PYTHONHOME`.
    home: PathBuf,
    shared: PathBuf,
    archive: PathBuf,
    /// Options for linking the archive.
    libraries: Vec<String>,
}

impl Kit {
    /// All interpreters from 3.8 on; the archives of older ones do not link on their own.
    fn all() -> Vec<Self> {
        let kits: Vec<Self> = interpreters::all()
            .unwrap()
            .iter()
            .filter_map(|interpreter| Self::of(&interpreter.path))
            .filter(|kit| kit.minor >= 8)
            .collect();
        assert!(!kits.is_empty());
        kits
    }

    fn of(interpreter: &Path) -> Option<Self> {
        let program = "import sys, sysconfig as s; v = s.get_config_var; print('\\n'.join([\
                       str(sys.version_info[1]), sys.prefix, \
                       v('LIBDIR') + '/' + v('INSTSONAME'), v('LIBPL') + '/' + v('LIBRARY'), \
                       v('LIBS') + ' ' + v('SYSLIBS')]))";
        let mut command = Command::new(interpreter);
        let output = command.args(["-c", program]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines();
        let kit = Self {
            minor: lines.next()?.parse().ok()?,
            home: lines.next()?.into(),
            shared: lines.next()?.into(),
            archive: lines.next()?.into(),
            libraries: lines
                .next()?
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        };
        // Other archives are not position-independent.
        let soname = kit.shared.file_name()?.as_encoded_bytes();
        let program = fs::read(interpreter).unwrap();
        let uses_library = program.windows(soname.len()).any(|name| name == soname);
        (uses_library && kit.shared.exists() && kit.archive.exists()).then_some(kit)
    }

    /// Compiles a program or a library from these sources, linked with `with`.
    fn link(&self, into: &Path, sources: &[&str], options: &[&str], with: &Path) {
        let mut compiler = tools::GCC.command();
        compiler
            .args(["-O1", "-fPIC", "-o"])
            .arg(into)
            .args(sources.iter().map(|name| format!("{SOURCES}/{name}")))
            .args(options)
            .arg("-Wl,--whole-archive")
            .arg(with)
            .arg("-Wl,--no-whole-archive")
            .args(&self.libraries)
            .args(["-ldl", "-lm", "-lpthread"]);
        assert!(compiler.status().unwrap().success());
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("PYTHONHOME", &self.home);
        command.env("LD_LIBRARY_PATH", self.shared.parent().unwrap());
        command
    }
}

/// A script for programs without exports, which cannot load extension modules.
const MODEST_PROGRAM: &str = r#"
import sys, _thread

def tell(frame, argument):
    lines = [sys.version.split()[0], str(_thread.get_ident()), str(id(argument))]
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        lines.append("\t".join((name, code.co_filename, str(frame.f_lineno))))
        frame = frame.f_back
    sys.stdout.write("\n".join(lines + ["", ""]))
    sys.stdout.flush()

def wait(argument):
    tell(sys._getframe(), argument); sys.stdin.read()

wait(object())
"#;

/// Starts a program, and checks that its interpreter is found and can be walked.
fn check(command: Command, program: &str, image: &Path) {
    let (child, answer) = start(command, program, "thread");
    let process = Process::open(child.id()).unwrap();
    let python = Detector::default().detect(&process).unwrap();
    assert_eq!(python.image, image);
    assert_eq!(python.version.to_string(), answer.version);
    assert_eq!(python.is_initialised, Some(true));
    Memory::of(&child, &python).check(&answer);
    end(child);
}

#[test]
fn an_interpreter_in_a_linked_library_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("linked");
    for kit in Kit::all() {
        kit.link(&program, &["linked.c", "engine.c"], &[], &kit.shared);
        check(kit.command(&program), PROGRAM, &kit.shared);
    }
}

#[test]
fn a_linked_interpreter_without_exports_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("alone");
    for kit in Kit::all() {
        kit.link(&program, &["linked.c", "engine.c"], &["-s"], &kit.archive);
        // Before 3.10 `_PyRuntime` has no section of its own.
        if kit.minor >= 10 {
            check(kit.command(&program), MODEST_PROGRAM, &program);
        }
    }
}

#[test]
fn a_program_without_section_headers_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    for kit in Kit::all() {
        let exporting = directory.path().join(format!("exporting{}", kit.minor));
        let sources = ["linked.c", "engine.c"];
        kit.link(&exporting, &sources, &["-rdynamic"], &kit.archive);
        remove_section_headers(&exporting);
        check(kit.command(&exporting), PROGRAM, &exporting);

        // From 3.13 on `_PyRuntime` starts with a cookie.
        if kit.minor >= 13 {
            let silent = directory.path().join("silent");
            kit.link(&silent, &sources, &["-s"], &kit.archive);
            remove_section_headers(&silent);
            check(kit.command(&silent), MODEST_PROGRAM, &silent);
        }
    }
}

/// Removes the section headers of a file.
fn remove_section_headers(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    // Another process writes the program: it cannot be started while a process of a test that
    // runs beside this one has it open for writing.
    let copy = file.with_extension("copy");
    fs::write(&copy, bytes).unwrap();
    let mut copying = Command::new("cp");
    assert!(copying.arg(&copy).arg(file).status().unwrap().success());
}

#[test]
fn a_library_loaded_later_is_detected_before_initialisation() {
    let directory = tempfile::tempdir().unwrap();
    let host = directory.path().join("host");
    let engine = directory.path().join("engine.so");
    for kit in Kit::all() {
        kit.link(&host, &["host.c"], &[], Path::new("-ldl"));
        kit.link(&engine, &["engine.c"], &["-shared"], &kit.shared);
        let mut child = start_host(&kit, &host, &[&kit.shared, &engine]);
        let process = Process::open(child.id()).unwrap();
        let detector = Detector::default();
        let before = detector.detect(&process).unwrap();
        assert_eq!(before.is_initialised, Some(false));
        // Where the library's data ends in its file, the dynamic linker clears what follows: this may take a while.
        let path = format!("/proc/{}/mem", child.id());
        let memory = File::options().write(true).open(path).unwrap();
        let head = before.interpreters_head;
        memory.write_all_at(b".shstrta", head).unwrap();
        let uncleared = detector.detect(&process).unwrap();
        assert_eq!(uncleared.is_initialised, Some(false));
        memory.write_all_at(&[0; 8], head).unwrap();
        let answer = resume(&mut child);
        let python = detector.detect(&process).unwrap();
        assert_eq!(python.is_initialised, Some(true));
        assert_eq!(python.image, kit.shared);
        assert_eq!(python.interpreters_head, before.interpreters_head);
        Memory::of(&child, &python).check(&answer);
        end(child);
    }
}

#[test]
fn of_several_interpreters_the_one_in_use_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let host = directory.path().join("host");
    let engine = directory.path().join("a_library_of_any_name.so");
    let kits = Kit::all();
    for (kit, idle) in kits.iter().zip(kits.iter().cycle().skip(1)) {
        kit.link(&host, &["host.c"], &[], Path::new("-ldl"));
        let options = ["-shared", "-Wl,-Bsymbolic"];
        kit.link(&engine, &["engine.c"], &options, &kit.archive);
        // Modules are linked with the library that is loaded first, so this one is second.
        let mut child = start_host(kit, &host, &[&engine, &idle.shared, &engine]);
        let answer = resume(&mut child);
        let process = Process::open(child.id()).unwrap();
        let python = Detector::default().detect(&process).unwrap();
        assert_eq!(python.image, engine);
        assert_eq!(python.others.len(), 1);
        assert_eq!(python.others[0].image, idle.shared);
        assert_eq!(python.others[0].is_initialised, Some(false));
        Memory::of(&child, &python).check(&answer);
        end(child);
    }
}

/// Starts a program that loads these libraries, the last of which is the engine.
fn start_host(kit: &Kit, host: &Path, libraries: &[&Path]) -> Child {
    let mut child = child::start(
        kit.command(host)
            .args(["-s", "-c", PROGRAM, "main"])
            .env("LIBRARIES", std::env::join_paths(libraries).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    child::wait_for_output(&mut child);
    child
}

fn resume(child: &mut Child) -> crate::Answer {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    read_answer(child)
}
