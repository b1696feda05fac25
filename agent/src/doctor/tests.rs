//! Reports on processes that can and cannot be profiled.

use super::{About, Report, examine};
use crate::{
    kernel::{Requirement, Unmet},
    process,
    python::{self, Version, inspect},
};
use std::path::PathBuf;

fn about() -> About {
    About {
        name: "python3.8\x1b[31m".to_owned(),
        executable: PathBuf::from("/opt/python\n3.8"),
        namespace_pids: vec![1234, 56, 7],
        has_own_mounts: Some(true),
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
            found: inspect::Unsupported {
                version: Version::from_literal("3.8.1"),
                flavour: inspect::Flavour {
                    is_debug: true,
                    is_free_threaded: false,
                },
                reason: inspect::Reason::Debug,
                passed_over: Vec::new(),
            },
        })),
        threads: None,
        descendants: vec![(1235, Version::of_series(3, 9))],
    };
    assert!(!report.is_profilable());
    assert_eq!(
        report.to_string(),
        "System\n\
         \x20 ok          Linux 5.10 or later\n\
         \x20 missing     process ids of the host\n\
         Process 1234\n\
         \x20 name        python3.8\\u{1b}[31m\n\
         \x20 executable  /opt/python\\n3.8\n\
         \x20 ids         56, 7 in PID namespaces of its own\n\
         \x20 files       its own, in another mount namespace, as in a container\n\
         Interpreter\n\
         \x20 build       for debugging, with the global lock\n\
         It cannot be profiled:\n\
         \x20 - agent runs in a PID namespace of its own and cannot tell which process is meant: \
         run it on the host, or with `--pid=host` (Docker, podman) or `hostPID: true` \
         (Kubernetes)\n\
         \x20 - process 1234 runs a debug build of Python 3.8.1 (/opt/python), which is not \
         supported; CPython 2.7 and 3.6 to 3.15 are when built for release; with its debug \
         symbols it is too: install them (packages end in -dbg, -dbgsym or -debuginfo)\n\
         But it has started process 1235, which runs CPython 3.9: try --pid 1235\n"
    );
}

#[test]
fn a_process_that_is_not_there_is_reported() {
    let report = examine(u32::MAX);
    assert!(matches!(
        report.process,
        Err(process::Error::NoSuchProcess { .. })
    ));
    assert!(report.python.is_none());
    assert!(
        report
            .to_string()
            .contains("there is no process 4294967295")
    );
}

#[test]
fn this_program_is_not_python() {
    let report = examine(std::process::id());
    assert!(!report.is_profilable());
    assert!(report.to_string().contains("which is not Python"));
    assert_eq!(report.process.unwrap().has_own_mounts, Some(false));
}
