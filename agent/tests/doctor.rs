//! What the doctor says of live interpreters.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::Read as _,
    process::{Command, Stdio},
};

use agent::doctor::examine;
use xtask::interpreters;

#[test]
fn every_interpreter_is_described() {
    for interpreter in interpreters::ensure().unwrap() {
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
        let output = child.stdout.take().unwrap();
        let version: Vec<u8> = output
            .bytes()
            .map(Result::unwrap)
            .take_while(|&byte| byte != b' ')
            .collect();
        let report = examine(child.id());
        let text = report.to_string();
        println!("{text}");
        drop(child.stdin.take());
        child.wait().unwrap();

        assert!(report.is_profilable());
        let version = String::from_utf8(version).unwrap();
        assert!(text.contains(&format!("CPython {version}\n")));
        assert!(text.contains("state       initialised\n"));
        let advice = format!("It can be profiled: agent --pid {}\n", child.id());
        assert!(text.ends_with(&advice));
    }
}
