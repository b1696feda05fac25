//! Files without symbols and debugging information, stripped in all ways that distributions use.

use std::{
    fs::{self, File},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, id},
};

use agent::testing::{
    binaries::elf::{DebugFiles, Elf},
    process::Process,
    symbolize::elf_symbols::{DebugInfoStatus, ElfSymbols, SymbolLimits, SymbolLookup},
};
use test_support::child;
use xtask::tools;

use crate::{addresses, compile_cpp, frames, run, symbols};

/// Number of addresses per file.
const COUNT: usize = 300;

/// A program with its symbols and debugging information, and the lookups in it.
struct CompleteProgram {
    program: PathBuf,
    addresses: Vec<u64>,
    found: Vec<SymbolLookup>,
}

impl CompleteProgram {
    fn new(directory: &Path) -> Self {
        let program = compile_cpp(directory, &["-g", "-Wl,--build-id=sha1"]);
        let addresses = addresses(&program, COUNT);
        let mut symbols = symbols(&program, &SymbolLimits::default());
        let found = symbols.find_all(&addresses);
        assert!(found.iter().any(|found| frames(found).len() > 2));
        Self {
            program,
            addresses,
            found,
        }
    }

    fn path(&self) -> &str {
        self.program.to_str().unwrap()
    }

    /// Moves symbols and debugging information to a separate file.
    fn strip(&self, debug: &Path) {
        let debug = debug.to_str().unwrap();
        run(
            &tools::OBJCOPY.path(),
            &["--only-keep-debug", self.path(), debug],
        );
        run(&tools::OBJCOPY.path(), &["--strip-all", self.path()]);
    }

    /// The names of the functions that have a symbol.
    fn names(&self) -> Vec<&str> {
        let names = self.found.iter().filter_map(|found| frames(found).last());
        names.map(|frame| frame.name.as_str()).collect()
    }
}

/// The names of the functions that have a symbol.
fn names(found: &[SymbolLookup]) -> Vec<&str> {
    let names = found.iter().filter_map(|found| frames(found).last());
    names.map(|frame| frame.name.as_str()).collect()
}

#[test]
fn a_separate_file_has_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let complete = CompleteProgram::new(directory.path());
    let debug = directory.path().join("program.debug");
    complete.strip(&debug);
    let mut stripped = symbols(&complete.program, &SymbolLimits::default());
    assert_eq!(stripped.debug_info(), DebugInfoStatus::Absent);
    assert!(names(&stripped.find_all(&complete.addresses)).len() < complete.addresses.len() / 10);

    let link = format!("--add-gnu-debuglink={}", debug.display());
    run(&tools::OBJCOPY.path(), &[&link, complete.path()]);
    let mut linked = symbols(&complete.program, &SymbolLimits::default());
    assert_eq!(linked.debug_info(), DebugInfoStatus::Used);
    assert_eq!(linked.find_all(&complete.addresses), complete.found);

    // With the symbols of the separate file only.
    let limits = SymbolLimits {
        inlines: false,
        ..SymbolLimits::default()
    };
    let mut plain = symbols(&complete.program, &limits);
    assert_eq!(plain.debug_info(), DebugInfoStatus::NotWanted);
    let found = plain.find_all(&complete.addresses);
    assert_eq!(names(&found), complete.names());
    assert!(found.iter().all(|found| frames(found).len() == 1));
    assert!(found.iter().all(|found| frames(found)[0].line.is_none()));
}

#[test]
fn symbols_inside_the_file_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let complete = CompleteProgram::new(directory.path());
    let mini = directory.path().join("mini");
    let mini_path = mini.to_str().unwrap();
    run(
        &tools::OBJCOPY.path(),
        &["--strip-debug", complete.path(), mini_path],
    );
    run(&tools::XZ.path(), &["--keep", mini_path]);
    run(&tools::OBJCOPY.path(), &["--strip-all", complete.path()]);
    let section = format!("--add-section=.gnu_debugdata={mini_path}.xz");
    run(&tools::OBJCOPY.path(), &[&section, complete.path()]);
    let mut symbols = symbols(&complete.program, &SymbolLimits::default());
    let found = symbols.find_all(&complete.addresses);
    assert_eq!(names(&found), complete.names());
    assert!(symbols.bytes() as u64 > fs::metadata(&mini).unwrap().len());
}

/// A process with the root directory `root`.
struct Confined(Child);

impl Confined {
    fn new(root: &Path) -> Self {
        let source = root.join("wait.c");
        fs::write(&source, "#include <unistd.h>\nint main() { pause(); }\n").unwrap();
        let program = root.join("wait");
        let paths = [program.to_str().unwrap(), source.to_str().unwrap()];
        run(&tools::GCC.path(), &["-static", "-o", paths[0], paths[1]]);
        let mut command = Command::new("chroot");
        command.arg(root).arg("/wait").stdin(Stdio::null());
        Self(child::start(&mut command))
    }

    fn process(&self) -> Process {
        let process = || Process::open(self.0.id()).unwrap();
        child::wait_until("it runs its program", || {
            process().executable().ends_with("wait")
        });
        process()
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_container_has_its_own_folder_of_debug_files() {
    let directory = tempfile::tempdir().unwrap();
    let complete = CompleteProgram::new(directory.path());
    let debug = directory.path().join("else.debug");
    complete.strip(&debug);
    let elf = Elf::read(File::open(&complete.program).unwrap()).unwrap();
    let build_id = elf.build_id().unwrap().unwrap();
    let (first, rest) = build_id.split_at(2);
    let root = directory.path().join("root");
    let folder = root.join("usr/lib/debug/.build-id").join(first);
    fs::create_dir_all(&folder).unwrap();
    let confined = Confined::new(&root);
    let process = confined.process();
    let find = || {
        let elf = Elf::read(File::open(&complete.program).unwrap()).unwrap();
        let files = DebugFiles::of(&process, Path::new("/program"));
        ElfSymbols::load(elf, Some(files), &SymbolLimits::default()).find_all(&complete.addresses)
    };
    assert_ne!(find(), complete.found);
    let installed = folder.join(format!("{rest}.debug"));
    fs::rename(&debug, &installed).unwrap();
    assert_eq!(find(), complete.found);

    // Who may map an image, but does not own it, says nothing about it: others map it too.
    chown(&installed, Some(12345), None).unwrap();
    assert_ne!(find(), complete.found);
    chown(&complete.program, Some(12345), None).unwrap();
    assert_eq!(find(), complete.found);
}

#[test]
fn a_file_of_a_container_names_no_debug_file_of_the_host() {
    let directory = tempfile::tempdir().unwrap();
    let complete = CompleteProgram::new(directory.path());
    let debug = directory.path().join("program.debug");
    complete.strip(&debug);
    let link = format!("--add-gnu-debuglink={}", debug.display());
    run(&tools::OBJCOPY.path(), &[&link, complete.path()]);
    let find = |files| {
        let elf = Elf::read(File::open(&complete.program).unwrap()).unwrap();
        ElfSymbols::load(elf, Some(files), &SymbolLimits::default()).find_all(&complete.addresses)
    };
    assert_ne!(find(DebugFiles::on_host(&complete.program)), complete.found);
    let process = Process::open(id()).unwrap();
    let files = DebugFiles::of(&process, &complete.program);
    assert_eq!(find(files), complete.found);
}

#[test]
fn a_library_without_section_headers_has_its_exports() {
    let directory = tempfile::tempdir().unwrap();
    for hash in ["gnu", "sysv"] {
        let library = directory.path().join("library.so");
        let path = library.to_str().unwrap();
        let style = format!("-Wl,--hash-style={hash}");
        let source = directory.path().join("a.c");
        let functions: Vec<String> = (0..500)
            .map(|at| format!("int function_{at}(int a) {{ return a * {at}; }}\n"))
            .collect();
        fs::write(&source, functions.concat()).unwrap();
        let source = source.to_str().unwrap();
        run(
            &tools::GCC.path(),
            &["-shared", "-fPIC", "-O1", "-o", path, source, &style],
        );
        let addresses = addresses(&library, COUNT);
        let expected = symbols(&library, &SymbolLimits::default()).find_all(&addresses);
        let mut bytes = fs::read(&library).unwrap();
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
        let elf = Elf::read(bytes).unwrap();
        assert!(!elf.has_sections());
        let mut symbols = ElfSymbols::load(elf, None, &SymbolLimits::default());
        let found = symbols.find_all(&addresses);
        let exported = |found: &&SymbolLookup| {
            let last = frames(found).last();
            last.is_some_and(|frame| frame.name.starts_with("function_"))
        };
        let expected: Vec<&SymbolLookup> = expected.iter().filter(exported).collect();
        let found: Vec<&SymbolLookup> = found.iter().filter(exported).collect();
        assert!(expected.len() > COUNT / 2);
        assert_eq!(found, expected);
    }
}

#[test]
fn symbols_are_used_if_debugging_information_is_too_large() {
    let directory = tempfile::tempdir().unwrap();
    let complete = CompleteProgram::new(directory.path());
    run(
        &tools::OBJCOPY.path(),
        &["--compress-debug-sections=zlib", complete.path()],
    );
    let limits = SymbolLimits {
        debug_bytes_at_once: 64 << 10,
        ..SymbolLimits::default()
    };
    let mut symbols = symbols(&complete.program, &limits);
    let found = symbols.find_all(&complete.addresses);
    assert_eq!(symbols.debug_info(), DebugInfoStatus::TooLarge);
    assert_eq!(names(&found), complete.names());
}

#[test]
fn a_small_cache_does_not_change_results() {
    let directory = tempfile::tempdir().unwrap();
    let complete = CompleteProgram::new(directory.path());
    let limits = SymbolLimits {
        debug_bytes_kept: 0,
        ..SymbolLimits::default()
    };
    let mut symbols = symbols(&complete.program, &limits);
    for (address, expected) in complete.addresses.iter().zip(&complete.found).rev() {
        assert_eq!(symbols.find(*address), *expected);
        symbols.shrink();
    }
    assert!(symbols.bytes() < 256 << 10);
}
