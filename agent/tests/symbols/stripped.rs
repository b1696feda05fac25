//! Files of which symbols and debugging information were taken off, in all ways that
//! distributions do it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use agent::testing::{
    binaries::elf::{DebugFiles, Elf},
    process::Process,
    symbolize::elf_symbols::{DebugInfoStatus, ElfSymbols, SymbolLimits, SymbolLookup},
};
use test_support::child;
use xtask::tools;

use crate::{addresses, compile_cpp, frames, run, symbols};

/// How many addresses of a file.
const COUNT: usize = 300;

/// What is known of a program.
struct Whole {
    program: PathBuf,
    addresses: Vec<u64>,
    found: Vec<SymbolLookup>,
}

impl Whole {
    /// A program with all that belongs to it.
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

    /// Takes everything off, into a file of its own.
    fn strip(&self, debug: &Path) {
        let debug = debug.to_str().unwrap();
        run(
            &tools::OBJCOPY.path(),
            &["--only-keep-debug", self.path(), debug],
        );
        run(&tools::OBJCOPY.path(), &["--strip-all", self.path()]);
    }

    /// Only the names of the functions that have a symbol.
    fn names(&self) -> Vec<&str> {
        let names = self.found.iter().filter_map(|found| frames(found).last());
        names.map(|frame| frame.name.as_str()).collect()
    }
}

/// Those of the functions that have a symbol.
fn names(found: &[SymbolLookup]) -> Vec<&str> {
    let names = found.iter().filter_map(|found| frames(found).last());
    names.map(|frame| frame.name.as_str()).collect()
}

#[test]
fn a_file_beside_it_has_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let whole = Whole::new(directory.path());
    let debug = directory.path().join("program.debug");
    whole.strip(&debug);
    let mut stripped = symbols(&whole.program, &SymbolLimits::default());
    assert_eq!(stripped.debug_info(), DebugInfoStatus::Absent);
    assert!(names(&stripped.find_all(&whole.addresses)).len() < whole.addresses.len() / 10);

    let link = format!("--add-gnu-debuglink={}", debug.display());
    run(&tools::OBJCOPY.path(), &[&link, whole.path()]);
    let mut linked = symbols(&whole.program, &SymbolLimits::default());
    assert_eq!(linked.debug_info(), DebugInfoStatus::Used);
    assert_eq!(linked.find_all(&whole.addresses), whole.found);

    // Only the symbols of it.
    let limits = SymbolLimits {
        inlines: false,
        ..SymbolLimits::default()
    };
    let mut plain = symbols(&whole.program, &limits);
    assert_eq!(plain.debug_info(), DebugInfoStatus::NotWanted);
    let found = plain.find_all(&whole.addresses);
    assert_eq!(names(&found), whole.names());
    assert!(found.iter().all(|found| frames(found).len() == 1));
    assert!(found.iter().all(|found| frames(found)[0].line.is_none()));
}

#[test]
fn symbols_inside_the_file_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let whole = Whole::new(directory.path());
    let mini = directory.path().join("mini");
    let mini_path = mini.to_str().unwrap();
    run(
        &tools::OBJCOPY.path(),
        &["--strip-debug", whole.path(), mini_path],
    );
    run(&tools::XZ.path(), &["--keep", mini_path]);
    run(&tools::OBJCOPY.path(), &["--strip-all", whole.path()]);
    let section = format!("--add-section=.gnu_debugdata={mini_path}.xz");
    run(&tools::OBJCOPY.path(), &[&section, whole.path()]);
    let mut symbols = symbols(&whole.program, &SymbolLimits::default());
    let found = symbols.find_all(&whole.addresses);
    assert_eq!(names(&found), whole.names());
    assert!(symbols.bytes() as u64 > fs::metadata(&mini).unwrap().len());
}

/// A process that sees `root` as its root.
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
fn a_container_has_its_own_folder() {
    let directory = tempfile::tempdir().unwrap();
    let whole = Whole::new(directory.path());
    let debug = directory.path().join("else.debug");
    whole.strip(&debug);
    let elf = Elf::read(File::open(&whole.program).unwrap()).unwrap();
    let build_id = elf.build_id().unwrap().unwrap();
    let (first, rest) = build_id.split_at(2);
    let root = directory.path().join("root");
    let folder = root.join("usr/lib/debug/.build-id").join(first);
    fs::create_dir_all(&folder).unwrap();
    let confined = Confined::new(&root);
    let process = confined.process();
    let find = || {
        let elf = Elf::read(File::open(&whole.program).unwrap()).unwrap();
        let files = DebugFiles::of(&process, Path::new("/program"));
        ElfSymbols::load(elf, Some(files), &SymbolLimits::default()).find_all(&whole.addresses)
    };
    assert_ne!(find(), whole.found);
    fs::rename(&debug, folder.join(format!("{rest}.debug"))).unwrap();
    assert_eq!(find(), whole.found);
}

#[test]
fn a_library_without_section_headers_tells_what_it_exports() {
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
fn debugging_information_that_is_too_large_leaves_symbols() {
    let directory = tempfile::tempdir().unwrap();
    let whole = Whole::new(directory.path());
    run(
        &tools::OBJCOPY.path(),
        &["--compress-debug-sections=zlib", whole.path()],
    );
    let limits = SymbolLimits {
        debug_bytes_at_once: 64 << 10,
        ..SymbolLimits::default()
    };
    let mut symbols = symbols(&whole.program, &limits);
    let found = symbols.find_all(&whole.addresses);
    assert_eq!(symbols.debug_info(), DebugInfoStatus::TooLarge);
    assert_eq!(names(&found), whole.names());
}

#[test]
fn little_memory_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let whole = Whole::new(directory.path());
    let limits = SymbolLimits {
        debug_bytes_kept: 0,
        ..SymbolLimits::default()
    };
    let mut symbols = symbols(&whole.program, &limits);
    for (address, expected) in whole.addresses.iter().zip(&whole.found).rev() {
        assert_eq!(symbols.find(*address), *expected);
        symbols.shrink();
    }
    assert!(symbols.bytes() < 256 << 10);
}
