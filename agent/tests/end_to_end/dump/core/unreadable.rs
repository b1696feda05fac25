//! Core dumps of which nothing, or not all, can be read: what is missing or damaged gives less and says so.

use std::{collections::BTreeMap, fs, io::Write as _, process::Command};

use super::{ABORT, Crash, Pattern, error, root, run, text};
use crate::machine;

/// Damaged copies of a core dump.
const DAMAGED: u64 = 24;

#[test]
fn what_is_no_core_dump_of_python_says_so() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, contents: &[u8]| {
        let path = folder.path().join(name);
        fs::File::create(&path)
            .unwrap()
            .write_all(contents)
            .unwrap();
        path
    };
    let mut shell = Command::new("bash");
    shell.args(["-c", "ulimit -c unlimited; kill -ABRT $$"]);
    let of_shell = Crash::of(shell, ABORT);
    let core = fs::read(of_shell.path()).unwrap();
    let with = |at: usize, byte: u8| {
        let mut changed = core.clone();
        changed[at] = byte;
        changed
    };
    let own = std::env::consts::ARCH == "x86_64";
    let cases = [
        (
            "text",
            b"Segmentation fault (core dumped)\n".repeat(4),
            "is not a core dump: name a file",
        ),
        ("empty", Vec::new(), "is not a core dump: name a file"),
        (
            "zstd",
            b"\x28\xb5\x2f\xfd".repeat(40),
            "is compressed: decompress it first with zstd -d",
        ),
        (
            "program",
            with(16, 3),
            "is a program or a library, not a core dump",
        ),
        ("32-bit", with(4, 1), "is of a 32-bit program"),
        (
            "other",
            with(18, if own { 183 } else { 62 }),
            if own {
                "is of a program for aarch64"
            } else {
                "is of a program for x86_64"
            },
        ),
        (
            "big",
            with(5, 2),
            "is of a program for a big-endian machine",
        ),
        (
            "cut",
            core[..100].to_vec(),
            "ends within its own headers: have it written again",
        ),
    ];
    for (name, contents, expected) in cases {
        let message = error(&file(name, &contents));
        assert!(message.contains(expected), "{name}: {message}");
    }
    let message = error(&folder.path().join("nothing"));
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
    assert!(error(folder.path()).contains("is not a regular file"));
    for option in ["--pid 1", "--children", "--timeout 1s", "--kernel"] {
        let capture = run(&of_shell.path(), option);
        assert_eq!(capture.status.code(), Some(2), "{option}");
        let name = option.split(' ').next().unwrap();
        let expected = format!("the argument '--core <FILE>' cannot be used with '{name}");
        assert!(capture.messages.contains(&expected), "{}", capture.messages);
    }
}

/// An interpreter that was replaced since, as by an update, is not the one whose memory the dump lacks.
#[test]
fn a_file_that_has_changed_is_not_used() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python3.11");
    fs::copy(fs::canonicalize("/usr/bin/python3").unwrap(), &python).unwrap();
    let crash = Crash::of_code(&python, "\nos.abort()\n", ABORT);
    assert!(text(&crash.path(), "").contains("<module>"));
    fs::remove_file(&python).unwrap();
    let message = error(&crash.path());
    assert!(message.contains("No such file"), "{message}");
    assert!(
        message.contains("only where the files are that the process had mapped"),
        "{message}"
    );
    fs::copy(std::env::current_exe().unwrap(), &python).unwrap();
    let message = error(&crash.path());
    assert!(
        message.contains("is another file than the process had mapped"),
        "{message}"
    );
}

#[test]
fn a_truncated_or_damaged_core_dump_gives_less() {
    let _machine = machine::alone();
    let _pattern = Pattern::of_working_directory();
    let interpreter = machine::one_interpreter();
    let crash = Crash::of_workload(interpreter, ABORT);
    let options = format!("--locals --source{}", root(interpreter));
    let core = fs::read(crash.path()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let mut ends = BTreeMap::<bool, u32>::new();
    let mut try_one = |contents: &[u8]| {
        fs::write(&path, contents).unwrap();
        let capture = run(&path, &options);
        // Not by a signal.
        let status = capture.status.code();
        assert!(matches!(status, Some(0 | 1)), "{capture:?}");
        if status == Some(1) {
            assert_eq!(capture.messages.lines().count(), 1, "{capture:?}");
        }
        *ends.entry(status == Some(0)).or_default() += 1;
        capture
    };
    for sixteenth in 1..16 {
        let capture = try_one(&core[..core.len() / 16 * sixteenth]);
        if capture.status.success() {
            let text = String::from_utf8(capture.output).unwrap();
            assert!(
                text.contains("\nMissing: the core dump is truncated after "),
                "{text}"
            );
            // Also where the list of Python's threads is cut: some frames, or why there are none.
            let main = text.split("\nThread ").nth(1).unwrap();
            assert!(main.starts_with(&format!("{} \"", crash.pid)), "{text}");
            assert!(!main.contains("\"\": "), "{text}");
            assert!(main.contains("\n    "), "{text}");
        }
    }
    let mut random = fastrand::Rng::with_seed(7);
    for nth in 0..DAMAGED {
        let mut damaged = core.clone();
        // In the headers and notes, and everywhere.
        let end = if nth % 2 == 0 { 32 << 10 } else { core.len() };
        for _ in 0..64 << (nth % 12) {
            let at = random.usize(64..end);
            damaged[at] = random.u8(..);
        }
        try_one(&damaged);
    }
    println!("{ends:?}");
    assert!(ends.get(&true).is_some_and(|count| *count > 3), "{ends:?}");
}
