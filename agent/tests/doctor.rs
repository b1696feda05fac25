//! The report of `agent doctor` on live interpreters.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use agent::testing::commands::examine;
use test_support::child;
use xtask::interpreters;

#[tokio::test]
async fn every_interpreter_is_described() {
    for interpreter in interpreters::all().unwrap() {
        let mut child = child::start(
            Command::new(&interpreter.path)
                .args([
                    "-c",
                    "import sys, platform\n\
                 sys.stdout.write(platform.python_version() + ' ')\n\
                 sys.stdout.flush()\n\
                 sys.stdin.read()",
                ])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let mut version = Vec::new();
        let mut output = BufReader::new(child.stdout.as_mut().unwrap());
        output.read_until(b' ', &mut version).unwrap();
        let report = examine(child.id()).await;
        let text = report.to_string();
        println!("{text}");
        drop(child.stdin.take());
        child.wait().unwrap();

        assert!(report.is_profilable());
        let version = String::from_utf8(version).unwrap();
        assert!(text.contains(&format!("CPython {}\n", version.trim_end())));
        assert!(text.contains("state         initialised\n"));
        let advice = format!("It can be profiled: agent --pid {}\n", child.id());
        assert!(text.ends_with(&advice));
    }
}

#[tokio::test]
async fn the_report_on_a_shell_names_its_python_child() {
    let interpreter = interpreters::all().unwrap().remove(0);
    let mut shell = child::start(
        Command::new("sh")
            .args([
                "-c",
                "\"$0\" -c 'import sys; sys.stdout.write(\"!\"); sys.stdout.flush(); \
             sys.stdin.read()'; exit 0",
            ])
            .arg(&interpreter.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    child::wait_for_output(&mut shell);
    let report = examine(shell.id()).await;
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert!(report.is_profilable());
    let [(pid, version)] = report.descendants[..] else {
        unreachable!("{report}");
    };
    assert_eq!(
        (u32::from(version.major), u32::from(version.minor)),
        (interpreter.major, interpreter.minor)
    );
    assert!(report.to_string().contains(&format!("try --pid {pid}\n")));
}
