//! The walk on recorded memory of interpreters, including those that are not installed.
//!
//! `AGENT_BLESS` is a list, separated by spaces, of interpreters whose images are recorded first:
//!
//! ```text
//! AGENT_BLESS="3.14-sid 3.14t" cargo test --release -p agent --test images
//! AGENT_BLESS=3.16 AGENT_TEST_INTERPRETERS=/path/to/python3.16 cargo test …
//! ```
//!
//! A listed path may be a script that runs an interpreter in an emulator of another machine, as
//! `exec qemu-aarch64 -B 0 -L root root/usr/bin/python3.14 "$@"`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use agent::testing::{
    binaries::elf::Elf,
    process::{Process, file_name},
    python::{Detector, remote},
};
use agent_common::{
    layout::{ABSENT, GilStyle},
    limits::MAX_THREADS,
    maps::SearchedStates,
    memory::UserAddr,
    python::{SearchStep, ThreadStateSearch, revalidate},
    scratch::Scratch,
};
use proptest::prelude::{ProptestConfig, any, proptest};
use test_support::{
    image::{Facts, Image, Recording, render},
    scenarios::Scenarios,
};
use xtask::interpreters::{self, Interpreter};

/// The program of the interpreters; its format is documented there.
const PROGRAM: &str = include_str!("data/scenarios.py");

/// Folder of the images, relative to the crate.
const FOLDER: &str = "tests/data/images";

/// File name extension of images.
const EXTENSION: &str = "gz";

/// Variable with the names of the interpreters to record.
const BLESS: &str = "AGENT_BLESS";

/// More frames than a stack may have; without files of the standard library, whose paths depend on
/// the machine that the image is recorded on.
const ARGUMENTS: [&str; 2] = ["600", "own files"];

/// Least number of images.
const LEAST_IMAGES: usize = 18;

/// The images by name, recorded first where requested.
static IMAGES: LazyLock<Vec<(String, Image)>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    for name in env::var(BLESS).unwrap_or_default().split_whitespace() {
        record(&interpreters::named(name).unwrap(), &folder);
    }
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some(EXTENSION.as_ref()))
        .collect();
    paths.sort();
    assert!(paths.len() >= LEAST_IMAGES);
    let name = |path: &Path| String::from_utf8_lossy(file_name(path)).into_owned();
    paths
        .into_iter()
        .map(|path| (name(&path), Image::load(&path)))
        .collect()
});

#[test]
fn every_image_has_the_stacks_of_its_interpreter() {
    for (name, image) in &*IMAGES {
        let stacks = remote::read(image, &image.facts.target()).unwrap();
        let stacks = render(&stacks);
        let mut lines = stacks.lines().zip(image.stacks.lines());
        let different = lines.find(|(read, stored)| read != stored);
        assert_eq!(different, None, "{name}");
        assert_eq!(stacks.len(), image.stacks.len(), "{name}");
    }
}

#[test]
fn every_thread_is_found_by_its_id_and_revalidated() {
    for (name, image) in &*IMAGES {
        let target = image.facts.target();
        let layout = &target.layout;
        let mut scratch = Box::new(Scratch::new());
        for stack in remote::read(image, &target).unwrap() {
            let id = stack.thread_id;
            let mut search = ThreadStateSearch::new();
            search
                .begin(
                    image,
                    layout,
                    target.interpreters_head,
                    SearchedStates::NONE,
                )
                .unwrap();
            let last = (0..MAX_THREADS)
                .map(|_| search.step(image, &mut scratch, layout, id))
                .find(|step| *step != SearchStep::Next);
            assert_eq!(last, Some(SearchStep::Done), "{name}");
            let states = (0..search.states.count()).map(|nth| search.states.get(nth));
            assert!(states.eq(stack.states.iter().copied()), "{name}");
            for state in stack.states {
                assert!(revalidate(image, &mut scratch, layout, state, id), "{name}");
                assert!(
                    !revalidate(image, &mut scratch, layout, state, id + 1),
                    "{name}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn corrupted_images_do_not_panic(
        nth in any::<usize>(),
        places in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 1..200),
    ) {
        let (_, image) = &IMAGES[nth % IMAGES.len()];
        let mut pieces = image.pieces.clone();
        let addresses: Vec<u64> = pieces.keys().copied().collect();
        for (piece, offset, byte) in places {
            let piece = pieces.get_mut(&addresses[piece % addresses.len()]).unwrap();
            let bytes = piece.len();
            piece[offset % bytes] = byte;
        }
        let damaged = Image {
            facts: image.facts.clone(),
            stacks: String::new(),
            pieces,
        };
        let _ = remote::read(&damaged, &damaged.facts.target());
    }
}

/// Records an image of an interpreter, after checking its stacks.
fn record(interpreter: &Interpreter, folder: &Path) {
    let scenarios = Scenarios::of(&interpreter.path, PROGRAM, ARGUMENTS);
    let process = scenarios.process();
    let facts = facts(interpreter, &scenarios.version, &process);
    let target = facts.target();
    let memory = process.memory().unwrap();
    let (_, differences) = scenarios.settle(|| remote::read(memory, &target).unwrap());
    assert_eq!(differences, [""; 0], "{interpreter}");

    let recording = Recording::new(memory);
    let stacks = remote::read(&recording, &target).unwrap();
    let image = Image {
        stacks: render(&stacks),
        pieces: recording.pieces(),
        facts,
    };
    let name = format!("{}-{}.{EXTENSION}", interpreter.name, image.facts.machine);
    image.save(&folder.join(name));
}

fn facts(interpreter: &Interpreter, version: &str, process: &Process) -> Facts {
    let mut facts = Facts {
        version: version.to_owned(),
        is_free_threaded: interpreter.free_threaded,
        machine: env::consts::ARCH.to_owned(),
        interpreters_head: 0,
        gil_holder: 0,
    };
    if file_name(process.executable()).starts_with(b"qemu-") {
        emulated(process, &mut facts);
    } else {
        let python = Detector::default().detect(process).unwrap();
        assert_eq!(python.layout, facts.layout(), "{interpreter}");
        facts.interpreters_head = python.interpreters_head;
        facts.gil_holder = python.gil_holder.unwrap_or(0);
    }
    facts
}

/// Completes the facts of an interpreter in an emulator, where nothing is mapped executable: it is
/// loaded without a bias and has the section `.PyRuntime`.
fn emulated(process: &Process, facts: &mut Facts) {
    let executable = process.executable();
    let (_, machine) = executable.to_str().unwrap().rsplit_once('-').unwrap();
    machine.clone_into(&mut facts.machine);
    let mappings = process.mappings().unwrap();
    let runtime = mappings
        .iter()
        .filter(|mapping| mapping.file_offset == 0)
        .find_map(|mapping| {
            let elf = Elf::read(process.open_mapped(mapping).ok()?).ok()?;
            elf.section(".PyRuntime")
        })
        .unwrap();
    let layout = facts.layout();
    let field = |offset| UserAddr(runtime.address).field(offset).0;
    facts.interpreters_head = field(layout.interpreter.runtime_head);
    if layout.interpreter.gil_style == GilStyle::LAST_HOLDER {
        assert_ne!(layout.interpreter.runtime_gil_holder, ABSENT);
        facts.gil_holder = field(layout.interpreter.runtime_gil_holder);
    }
}
