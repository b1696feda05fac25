//! Reports on processes that can and cannot be profiled.

use super::{
    About, Measured, Report, examine,
    left_out::LeftOut,
    native::{Contents, NativeCode, NativeFile, RunTime, Symbols, Unread},
};
use crate::{
    bpf::{Requirement, Unmet},
    daemon::{QuarantineList, QuarantinedSubject},
    process,
    python::{self, Version, inspect},
};
use std::{path::PathBuf, time::Duration};

fn about() -> About {
    About {
        name: "python3.8\x1b[31m".to_owned(),
        executable: PathBuf::from("/opt/python\n3.8"),
        namespace_pids: vec![1234, 56, 7],
        has_own_mounts: Some(true),
        unreadable: None,
    }
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let report = Report {
        pid: 1234,
        requirements: vec![
            Requirement {
                name: "Linux 5.10 or later",
                met: Ok(()),
            },
            Requirement {
                name: "process ids of the host",
                met: Err(Unmet::PidNamespace),
            },
        ],
        process: Ok(about()),
        python: Some(Err(python::Error::Unsupported {
            pid: 1234,
            image: PathBuf::from("/opt/python"),
            found: inspect::UnsupportedInterpreter {
                version: Version::from_literal("3.8.1"),
                flavour: inspect::Flavour {
                    is_debug: true,
                    is_free_threaded: false,
                },
                reason: inspect::UnsupportedReason::Debug,
                rejected_sources: Vec::new(),
            },
        })),
        threads: None,
        descendants: vec![(1235, Version::of_series(3, 9))],
        native: None,
        measured: None,
        left_out: LeftOut::default(),
    };
    assert!(!report.is_profilable());
    assert_eq!(
        report.to_string(),
        "System\n\
         \x20 ok            Linux 5.10 or later\n\
         \x20 missing       process ids of the host\n\
         Process 1234\n\
         \x20 name          python3.8\\u{1b}[31m\n\
         \x20 executable    /opt/python\\n3.8\n\
         \x20 ids           56, 7 in PID namespaces of its own\n\
         \x20 files         its own, in another mount namespace, as in a container\n\
         Interpreter\n\
         \x20 build         for debugging, with the global lock\n\
         It cannot be profiled:\n\
         \x20 - agent runs in a PID namespace of its own and cannot resolve the host's process ids: \
         run it on the host, or with `--pid=host` (Docker, podman) or `hostPID: true` \
         (Kubernetes)\n\
         But it has started process 1235, which runs CPython 3.9: try --pid 1235\n"
    );
}

#[tokio::test]
async fn a_process_that_is_not_there_is_reported() {
    let report = examine(u32::MAX).await;
    assert!(matches!(
        report.process.as_ref().unwrap_err().downcast_ref(),
        Some(process::Error::NoSuchProcess { .. })
    ));
    assert!(report.python.is_none());
    assert!(
        report
            .to_string()
            .contains("there is no process 4294967295")
    );
}

#[tokio::test]
async fn this_program_is_not_python() {
    let report = examine(std::process::id()).await;
    assert!(report.is_profilable());
    let text = report.to_string();
    let advice = format!("It can be profiled: agent --pid {}\n", report.pid);
    assert!(text.contains(&advice), "{text}");
    let (_, why) = text.split_once("There are no Python frames: ").unwrap();
    let why = why.replace('\n', " ");
    assert!(why.contains("which is not Python"), "{text}");
    assert_eq!(report.process.unwrap().has_own_mounts, Some(false));
}

fn file(name: &str, symbols: Symbols, has_unwind_table: bool) -> NativeFile {
    NativeFile {
        name: name.to_owned(),
        contents: Ok(Contents {
            has_unwind_table,
            symbols,
            has_debug_info: symbols == Symbols::All,
        }),
    }
}

/// What a report says of native frames and after them.
fn native_part(files: Vec<NativeFile>, run_time: Option<RunTime>, measured: Measured) -> String {
    let report = Report {
        pid: 1234,
        requirements: Vec::new(),
        process: Ok(about()),
        python: None,
        threads: None,
        descendants: Vec::new(),
        native: Some(Ok(NativeCode { files, run_time })),
        measured: Some(Ok(measured)),
        left_out: LeftOut::default(),
    };
    let text = report.to_string();
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let (_, text) = text.split_once("Native frames\n").unwrap();
    text.to_owned()
}

#[test]
fn all_is_well_in_few_lines() {
    let files = vec![
        file("python3.12", Symbols::All, true),
        file("libz.so.1", Symbols::Exported, true),
        file("libc.so.6", Symbols::Exported, true),
    ];
    let measured = Measured {
        duration: Duration::from_millis(1003),
        walked: 97,
        complete: 97,
        ..Measured::default()
    };
    assert_eq!(
        native_part(files, None, measured),
        "\x20 unwinding     3 files, all with unwind tables\n\
         \x20 names         1 file with all symbols, 2 with exported symbols only\n\
         \x20 lines         1 file with debugging information\n\
         \x20 stacks        97 of 97 samples complete, in 1.0 s\n\
         It can be profiled: agent --pid 1234\n"
    );
}

#[test]
fn what_native_frames_lack_is_listed() {
    let nothing = |number| file(&format!("lib{number}.so"), Symbols::None, true);
    let mut files: Vec<_> = (1..=7).map(nothing).collect();
    files.push(file("libc.so", Symbols::Exported, false));
    files.push(file("a\nb", Symbols::Exported, false));
    files.push(NativeFile {
        name: "gone".to_owned(),
        contents: Err(Unread::Invalid),
    });
    let run_time = RunTime {
        map: PathBuf::from("/tmp/perf-7.map"),
        has_map: false,
    };
    let measured = Measured {
        duration: Duration::from_secs(1),
        walked: 9,
        complete: 1,
        ends: vec![("libc.so".to_owned(), 7), ("[jit]".to_owned(), 1)],
        refused_events: Vec::new(),
        losses: vec![
            "8 stacks lack native frames: there was no rule to unwind the code (7), the stack \
             led back to itself (1)."
                .to_owned(),
        ],
    };
    assert_eq!(
        native_part(files, Some(run_time), measured),
        "\x20 unwinding     10 files, 7 with unwind tables\n\
         \x20               gone: cannot be read\n\
         \x20               libc.so: no call-frame information; frame pointers are tried\n\
         \x20               a\\nb: no call-frame information; frame pointers are tried\n\
         \x20 names         2 files with exported symbols only, 7 with no symbols\n\
         \x20               lib1.so: its frames are addresses\n\
         \x20               lib2.so: its frames are addresses\n\
         \x20               lib3.so: its frames are addresses\n\
         \x20               lib4.so: its frames are addresses\n\
         \x20               lib5.so: its frames are addresses\n\
         \x20               and 2 more\n\
         \x20 lines         no file with debugging information\n\
         \x20 run time      code without names: there is no /tmp/perf-7.map\n\
         \x20 stacks        1 of 9 samples complete, in 1.0 s\n\
         \x20               truncated in libc.so (7), [jit] (1)\n\
         \x20               8 stacks lack native frames: there was no rule to unwind the\n\
         \x20               code (7), the stack led back to itself (1).\n\
         It can be profiled: agent --pid 1234\n"
    );
}

#[test]
fn a_process_that_used_no_cpu_is_told_so() {
    let measured = Measured {
        duration: Duration::from_millis(1003),
        ..Measured::default()
    };
    let text = native_part(Vec::new(), None, measured);
    assert!(
        text.contains("  stacks        no samples: the process used no CPU in 1.0 s\n"),
        "{text}"
    );
    assert!(text.ends_with("It can be profiled: agent --pid 1234\n"));
}

#[test]
fn events_that_are_not_available_are_named() {
    let measured = Measured {
        refused_events: vec![("page-faults", "the kernel refused".to_owned())],
        ..Measured::default()
    };
    let text = native_part(Vec::new(), None, measured);
    assert!(
        text.ends_with(
            "It can be profiled: agent --pid 1234\n\
             But the event page-faults is not available: the kernel refused\n"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_capture_that_does_not_start_is_an_obstacle() {
    let mut report = examine(std::process::id()).await;
    assert!(report.is_profilable());
    report.measured = Some(Err("the kernel refused".to_owned()));
    assert!(!report.is_profilable());
    let text = report.to_string();
    assert!(
        text.contains("It cannot be profiled:\n  - the kernel refused\n"),
        "{text}"
    );
}

#[tokio::test]
async fn what_is_left_out_is_bounded() {
    let mut report = examine(std::process::id()).await;
    assert!(!report.to_string().contains("Left out"));
    let subject = |number| QuarantinedSubject {
        name: format!("process {number}"),
        reason: "it takes too long to read".to_owned(),
        seconds: 12,
    };
    report.left_out = LeftOut {
        here: vec![(
            "the file system at /mnt/\x1ba".to_owned(),
            "it does not answer",
        )],
        by_agent: Some(QuarantineList {
            count: 150,
            subjects: (1..=100).map(subject).collect(),
        }),
    };
    let text = report.to_string();
    let (_, text) = text.split_once("Left out\n").unwrap();
    assert!(
        text.starts_with(
            "  here          the file system at /mnt/\\u{1b}a: it does not answer\n  \
             agent run     process 1: it takes too long to read, since 12 s\n                \
             process 2: "
        ),
        "{text}"
    );
    assert!(text.contains("process 10: "), "{text}");
    assert!(!text.contains("process 11: "), "{text}");
    assert!(text.contains("                and 140 more\n"), "{text}");
}

#[tokio::test]
async fn a_dump_needs_no_programs() {
    let mut report = examine(std::process::id()).await;
    report.requirements = vec![Requirement {
        name: "permission to profile",
        met: Err(Unmet::Capabilities("CAP_BPF".to_owned())),
    }];
    // It is not Python.
    assert!(!report.is_dumpable());
    report.process = Ok(About {
        unreadable: Some("run agent as root".to_owned()),
        ..about()
    });
    let obstacles = report.obstacles();
    assert!(
        obstacles[1].ends_with(" is missing: run agent as root"),
        "{obstacles:?}"
    );
}
