//! What the doctor says of live interpreters.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use agent::doctor::examine;
use xtask::interpreters;

#[test]
fn every_interpreter_is_described() {
    for interpreter in interpreters::all().unwrap() {
        let mut child = Command::new(&interpreter.path)
            .args([
                "-c",
                "import sys, platform\n\
                 sys.stdout.write(platform.python_version() + ' ')\n\
                 sys.stdout.flush()\n\
                 sys.stdin.read()",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut version = Vec::new();
        let mut output = BufReader::new(child.stdout.as_mut().unwrap());
        output.read_until(b' ', &mut version).unwrap();
        let report = examine(child.id());
        let text = report.to_string();
        println!("{text}");
        drop(child.stdin.take());
        child.wait().unwrap();

        assert!(report.is_profilable());
        let version = String::from_utf8(version).unwrap();
        assert!(text.contains(&format!("CPython {}\n", version.trim_end())));
        assert!(text.contains("state       initialised\n"));
        let advice = format!("It can be profiled: agent --pid {}\n", child.id());
        assert!(text.ends_with(&advice));
    }
}
