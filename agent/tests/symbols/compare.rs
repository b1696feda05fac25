//! The same addresses, looked up with `addr2line` of binutils.
//!
//! Each function, including inlined ones, must have the same line and, except for parameters,
//! hashes and suffixes of parts, the same name. The results of binutils are wrong in three cases,
//! in which those of LLVM's tool equal the agent's:
//!
//! - some names in other units, a result of link-time optimization, are not found (`??`);
//! - in parts of a function (`.cold`) and where there is no line, the innermost inlined function
//!   has the name of the symbol;
//! - in some units of DWARF 5 the file is that of the unit, not the one with the line.

use std::{num::NonZeroU32, path::Path, process::Command};

use agent::testing::symbolize::elf_symbols::{SymbolFrame, SymbolLimits};
use xtask::{interpreters, tools};

use crate::{CPP, NESTED, RUST, addresses, compile_cpp, frames, lookup, run, symbols};

/// Number of addresses per file.
const COUNT: usize = 1000;

/// Name, file and line.
type Place = (String, String, u32);

/// The frames of addresses according to binutils.
fn binutils(path: &Path, addresses: &[u64]) -> Vec<Vec<Place>> {
    let mut command = tools::ADDR2LINE.command();
    command.args(["-a", "-f", "-i", "-C", "-e"]).arg(path);
    let text = lookup(&mut command, addresses);
    let mut answers = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
            continue;
        }
        let (file, number) = lines.next().unwrap().rsplit_once(':').unwrap();
        let number = number.split(' ').next().unwrap();
        let place = (base(line), clean(file), number.parse().unwrap_or_default());
        answers.last_mut().unwrap().push(place);
    }
    answers
}

fn place(frame: &SymbolFrame) -> Place {
    let file = frame.file.as_deref().unwrap_or("??");
    (
        base(&frame.name),
        clean(file),
        frame.line.map_or(0, NonZeroU32::get),
    )
}

/// The last part of a name, without parameters and arguments of templates.
fn base(name: &str) -> String {
    let mut name = name.to_owned();
    for (operator, word) in [
        ("operator()", "operator_call"),
        ("operator->", "operator_arrow"),
        ("->", ""),
        ("operator<<", "operator_shift"),
        ("operator<=", "operator_less_equal"),
        ("operator< ", "operator_less"),
        ("operator<", "operator_less"),
        ("operator>", "operator_greater"),
        ("(anonymous namespace)", "anonymous"),
        ("{lambda()#", "{lambda#"),
    ] {
        name = name.replace(operator, word);
    }
    let mut plain = String::new();
    let mut depth = 0_u32;
    for character in name.chars() {
        match character {
            '<' | '{' => depth += 1,
            '>' | '}' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    let mut parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    let is_hash = |part: &&str| part.len() == 17 && part.starts_with('h');
    while parts.len() > 1 && parts.last().is_some_and(is_hash) {
        parts.pop();
    }
    let last = parts.last().copied().unwrap_or_default().trim();
    let last = last.rsplit(' ').next().unwrap();
    // `std::ostream` is `std::basic_ostream`.
    let last = last.replace("basic_", "");
    last.split(['.', '[']).next().unwrap().to_owned()
}

/// A path without its redundant components.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.len() > 1 => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Checks that all frames are equal; the file may differ at `other_files` of a hundred addresses.
fn check(path: &Path, other_files: usize) {
    let addresses = addresses(path, COUNT);
    assert!(addresses.len() >= COUNT / 2, "{}", addresses.len());
    let mut symbols = symbols(path, &SymbolLimits::default());
    let found = symbols.find_all(&addresses);
    let expected = binutils(path, &addresses);
    assert_eq!(expected.len(), addresses.len());
    let mut differing = 0;
    let mut inlined = 0;
    for ((address, found), expected) in addresses.iter().zip(&found).zip(expected) {
        let found: Vec<Place> = frames(found).iter().map(place).collect();
        let symbol = &found.last().unwrap().0;
        let is_same = |(one, other): (&Place, &Place)| {
            one.2 == other.2 && (one.0 == other.0 || other.0 == *symbol || other.0 == "??")
        };
        assert!(
            found.len() == expected.len() && found.iter().zip(&expected).all(is_same),
            "{address:#x} {found:?} {expected:?}"
        );
        // And the file that the linker names.
        let is_same_file = |(one, other): (&Place, &Place)| one.1 == other.1 || one.2 == 0;
        differing += usize::from(!found.iter().zip(&expected).all(is_same_file));
        inlined += usize::from(found.len() > 1);
    }
    assert!(inlined > addresses.len() / 20, "{inlined}");
    assert!(
        differing * 100 <= other_files * addresses.len(),
        "{differing}"
    );
}

#[test]
fn cpp_with_all_formats() {
    let directory = tempfile::tempdir().unwrap();
    for options in [
        &["-g"][..],
        &["-g", "-gdwarf-4"],
        &["-g", "-gz=zlib"],
        &["-g", "-ffunction-sections", "-Wl,--gc-sections"],
        &["-g", "-flto"],
    ] {
        check(&compile_cpp(directory.path(), options), 3);
    }
    let program = compile_cpp(directory.path(), &["-g"]);
    let path = program.to_str().unwrap();
    run(
        &tools::OBJCOPY.path(),
        &["--compress-debug-sections=zstd", path],
    );
    check(&program, 3);
}

#[test]
fn functions_in_functions() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let files = ["-o", program.to_str().unwrap(), NESTED];
    run(&tools::GCC.path(), &[&["-O2", "-g"][..], &files].concat());
    check(&program, 0);
}

#[test]
fn rust_with_both_mangling_schemes() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    let options = ["-O", "-g", "--edition=2021", "-o"];
    let files = [program.to_str().unwrap(), RUST];
    for mangling in [&[][..], &["-C", "symbol-mangling-version=v0"]] {
        run(
            &tools::rustc().unwrap(),
            &[&options[..], &files, mangling].concat(),
        );
        check(&program, 0);
    }
}

#[test]
fn interpreters_with_debugging_information() {
    let mut checked = 0;
    for interpreter in interpreters::all().unwrap() {
        let program = "import sysconfig as s; v = s.get_config_var; \
                       print(str(v('LIBDIR')) + '/' + str(v('INSTSONAME')))";
        let mut command = Command::new(&interpreter.path);
        let output = command.args(["-c", program]).output().unwrap();
        let library = String::from_utf8(output.stdout).unwrap();
        let library = Path::new(library.trim());
        let Ok(file) = std::fs::File::open(library) else {
            continue;
        };
        if agent::testing::binaries::elf::Elf::read(file).is_ok_and(|elf| elf.has_debug_info()) {
            check(library, 3);
            checked += 1;
        }
    }
    assert!(checked > 0);
}

#[test]
fn the_full_name_is_demangled() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile_cpp(directory.path(), &["-g"]);
    let mut symbols = symbols(&program, &SymbolLimits::default());
    let addresses = addresses(&program, 4 * COUNT);
    let found = symbols.find_all(&addresses);
    let names: Vec<&str> = found
        .iter()
        .flat_map(|found| frames(found).iter().map(|frame| frame.name.as_str()))
        .collect();
    for expected in [
        "main",
        "plain_c_name",
        "shop::work",
        "shop::(anonymous namespace)::Item::total",
        "shop::Stock<shop::(anonymous namespace)::Item>::add",
        "std::vector<shop::(anonymous namespace)::Item, \
         std::allocator<shop::(anonymous namespace)::Item> >::push_back",
    ] {
        assert!(names.contains(&expected), "{expected} of {names:#?}");
    }
    // The line equals the one in the source of the program.
    let source = std::fs::read_to_string(CPP).unwrap();
    let declared = source
        .lines()
        .position(|line| line.contains("double total() const { return price"));
    let total = found
        .iter()
        .flat_map(frames)
        .find(|frame| frame.name.ends_with("Item::total"))
        .unwrap();
    let line = u32::try_from(declared.unwrap() + 1).unwrap();
    assert_eq!(total.first_line.unwrap().get(), line);
    assert_eq!(total.line.unwrap().get(), line);
    assert_eq!(total.file.as_deref(), Some(CPP));
}
