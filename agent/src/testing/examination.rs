//! The report of `agent doctor` on a recorded process.

#![expect(
    clippy::expect_used,
    reason = "a test whose recording cannot be read fails by panicking"
)]

use std::path::Path;

use super::replay::replay_capture;
use crate::{
    bpf::{Requirement, requirements},
    commands::doctor::{self, Contents, LeftOut, Measured, NativeCode, NativeFile, Symbols},
    process::{file_name, maps::Mapping},
    python::{
        Interpreter, ProbeSite, Version, gil::GilLocation, inspect::Flavour, layouts::LayoutSource,
        versions::series_of,
    },
};

/// The doctor's report on the process of a recorded capture: the interpreter and the files are those
/// that a real examination has found, the stacks those of the recording.
///
/// # Panics
///
/// When the recording cannot be read.
#[must_use]
pub fn replay_examination(folder: &Path, name: &str, rate: u32) -> String {
    let profile = replay_capture(folder, name, rate);
    let process = &profile.processes[0];
    let library = process.images.iter().find(|image| is_python(&image.path));
    let library = library.expect("an interpreter");
    let version = process.runtime.strip_prefix("CPython ");
    let version = version.and_then(Version::from_literal).expect("a version");
    let (start, path) = (library.start, library.path.display());
    let code = format!(
        "{start:x}-{:x} r-xp 00000000 00:00 1 {path}",
        start + 0x0040_0000
    );
    let site = Mapping::parse(code.as_bytes()).map(|mapping| ProbeSite {
        mapping,
        points: Vec::new(),
    });
    let interpreter = Interpreter {
        version,
        flavour: Flavour {
            is_debug: false,
            is_free_threaded: false,
        },
        image: library.path.clone(),
        interpreters_head: library.start + 0x0042_3368,
        gil_holder: None,
        gil: GilLocation::Unknown,
        raise_site: site.clone(),
        allocators: site.into_iter().collect(),
        announced: Vec::new(),
        asyncio: None,
        thread_pointer_distance: 0,
        is_initialised: Some(true),
        layout: series_of(version).expect("a series").layout,
        layout_source: LayoutSource::Table,
        rejected_sources: Vec::new(),
        images: process.images.clone(),
        others: Vec::new(),
    };
    let files = process.images.iter().map(|image| {
        let is_of_system = image.path.starts_with("/usr");
        NativeFile {
            name: String::from_utf8_lossy(file_name(&image.path)).into_owned(),
            contents: Ok(Contents {
                has_unwind_table: true,
                symbols: if is_of_system {
                    Symbols::Exported
                } else {
                    Symbols::All
                },
                has_debug_info: image.path.to_string_lossy().contains("_json"),
            }),
        }
    });
    let met = |requirement: Requirement| Requirement {
        met: Ok(()),
        ..requirement
    };
    let report = doctor::Report {
        pid: process.pid,
        requirements: requirements().into_iter().map(met).collect(),
        process: Ok(doctor::About {
            name: process.name.clone(),
            executable: process.executable.clone(),
            namespace_pids: vec![process.pid],
            has_own_mounts: Some(false),
            unreadable: None,
        }),
        python: Some(Ok(interpreter)),
        threads: Some(Ok(doctor::Threads {
            complete: 4,
            truncated: 0,
            frames: 27,
        })),
        descendants: Vec::new(),
        native: Some(Ok(NativeCode {
            files: files.collect(),
            run_time: None,
        })),
        measured: Some(Ok(Measured::of(&profile))),
        left_out: LeftOut::default(),
    };
    report.to_string()
}

fn is_python(path: &Path) -> bool {
    file_name(path).starts_with(b"libpython")
}
