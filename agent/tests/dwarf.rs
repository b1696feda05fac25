//! Layouts from debugging information: of every version of DWARF, compressed, in a separate file, of
//! another build, and malformed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use agent::testing::{
    binaries::elf::{DebugFiles, Elf},
    process::Process,
    python::{
        Version,
        dwarf::{self, Error},
        versions::series_of,
    },
};
use agent_common::layout::Layout;
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use xtask::tools;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/structures.c");

/// The table that the layout is based on.
fn base() -> &'static Layout {
    let version = Version::of_series(3, 11);
    &series_of(version).unwrap().layout
}

/// Compiles the structures into a library.
fn compile(into: &Path, options: &[&str]) {
    let mut compiler = tools::GCC.command();
    compiler.args(["-shared", "-o"]).arg(into).arg(SOURCE);
    assert!(compiler.args(options).status().unwrap().success());
}

/// The layout from the separate debugging information of a library.
fn find(image: &Path) -> Option<Layout> {
    let process = Process::open(std::process::id()).unwrap();
    let elf = Elf::read(fs::File::open(image).unwrap()).unwrap();
    assert!(!elf.has_debug_info());
    let debug_file = DebugFiles::of(&process, image).find(&elf)?;
    Some(dwarf::layout(&debug_file, base(), None).unwrap())
}

fn check(layout: &Layout) {
    assert_eq!(layout.interpreter.runtime_head, 16);
    assert_eq!(layout.interpreter.runtime_gil_holder, 40);
    assert_eq!(layout.interpreter.threads_head, 16);
    assert_eq!(layout.thread.frame, 32);
    assert_eq!(layout.thread.thread_id, 40);
    assert_eq!(layout.thread.datastack_top, 56);
    assert_eq!(layout.thread.bytes, 64);
    assert_eq!(layout.thread.cframe_current_frame, 8);
    assert_eq!(layout.frame.instruction, 16);
    assert_eq!(layout.frame.owner, 25);
    assert_eq!(layout.frame.locals, 32);
    assert_eq!(layout.code.first_line, 40);
    assert_eq!(layout.code.name, 64);
    assert_eq!(layout.code.bytecode, 84);
    assert_eq!(layout.text.kind_bit, 3);
    assert_eq!(layout.text.ascii_bit, 7);
    assert_eq!(layout.text.compact_data, 72);
    assert_eq!(layout.text.bytes_data, 48);
    assert_eq!(layout.object.class, 24);
    assert_eq!(layout.object.class_dict_offset, 256);
    assert_eq!(layout.object.dict_values, 48);
    // Fields that are taken from the table.
    assert_eq!(
        layout.frame.instruction_style,
        base().frame.instruction_style
    );
}

#[test]
fn every_format_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("structures.so");
    for options in [
        &["-g"][..],
        &["-g", "-gdwarf-2", "-gstrict-dwarf"],
        &["-g", "-gdwarf-4"],
        &["-g", "-gdwarf-5"],
        &["-g", "-gz=zlib"],
        &["-g", "-O2"],
    ] {
        compile(&library, options);
        let elf = Elf::read(fs::File::open(&library).unwrap()).unwrap();
        let layout = dwarf::layout(&elf, base(), Some(56));
        check(&layout.unwrap_or_else(|error| panic!("{options:?}: {error}")));
    }
}

#[test]
fn a_missing_member_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("structures.so");
    compile(&library, &["-g", "-Dlast_holder=other_holder"]);
    let elf = Elf::read(fs::File::open(&library).unwrap()).unwrap();
    let missing = Error::Missing {
        structure: "_PyRuntimeState",
        field: "ceval.gil.last_holder",
    };
    assert_eq!(dwarf::layout(&elf, base(), None), Err(missing));
    let other = Error::OtherBuild {
        found: 56,
        actual: 72,
    };
    assert_eq!(dwarf::layout(&elf, base(), Some(72)), Err(other));
    compile(&library, &[]);
    let elf = Elf::read(fs::File::open(&library).unwrap()).unwrap();
    assert_eq!(dwarf::layout(&elf, base(), None), Err(Error::Absent));
}

/// Moves the debugging information of a library into a separate file, and returns its path.
fn split(library: &Path) -> PathBuf {
    let symbols = library.with_extension("so.debug");
    let run = |arguments: &[&str], files: &[&Path]| {
        let mut command = tools::OBJCOPY.command();
        command.args(arguments).args(files);
        assert!(command.status().unwrap().success());
    };
    run(&["--only-keep-debug"], &[library, &symbols]);
    let link = format!("--add-gnu-debuglink={}", symbols.display());
    run(&["--strip-debug", &link], &[library]);
    symbols
}

#[test]
fn a_separate_file_is_found_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("structures.so");
    for build_id in ["-Wl,--build-id=none", "-Wl,--build-id=sha1"] {
        compile(&library, &["-g", build_id]);
        let symbols = split(&library);
        check(&find(&library).unwrap());

        // In the folder `.debug` next to the library.
        let folder = directory.path().join(".debug");
        fs::create_dir_all(&folder).unwrap();
        let moved = folder.join(symbols.file_name().unwrap());
        fs::rename(&symbols, &moved).unwrap();
        check(&find(&library).unwrap());

        // The file of another build has the right name, but is not used.
        let other = directory.path().join("other.so");
        compile(&other, &["-g", "-O2", "-Dunused=used", build_id]);
        fs::rename(split(&other), &moved).unwrap();
        assert_eq!(find(&library), None);
        fs::remove_file(&moved).unwrap();
        assert_eq!(find(&library), None);
    }
}

/// A library with debugging information, and its range in the file.
static LIBRARY: LazyLock<(Vec<u8>, Vec<std::ops::Range<usize>>)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("structures.so");
    compile(&library, &["-g"]);
    let bytes = fs::read(&library).unwrap();
    let elf = Elf::read(bytes.as_slice()).unwrap();
    let ranges = [".debug_info", ".debug_abbrev", ".debug_str"]
        .map(|name| {
            let section = elf.section(name).unwrap();
            let start = usize::try_from(section.file_offset.unwrap()).unwrap();
            start..start + usize::try_from(section.bytes).unwrap()
        })
        .into();
    (bytes, ranges)
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn malformed_debugging_information_does_not_panic(
        changes in prop::collection::vec(
            (0..3_usize, any::<prop::sample::Index>(), any::<u8>()), 1..20
        )
    ) {
        let (bytes, ranges) = &*LIBRARY;
        let mut bytes = bytes.clone();
        for (section, at, value) in changes {
            let range = ranges[section].clone();
            bytes[range.start + at.index(range.len())] = value;
        }
        let elf = Elf::read(bytes.as_slice()).unwrap();
        if let Ok(layout) = dwarf::layout(&elf, base(), None) {
            assert!(layout.thread.bytes <= 512);
            assert!(layout.frame.bytes <= 128);
            assert!(layout.code.bytes <= 256);
        }
    }
}
