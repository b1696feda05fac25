//! The files that an interpreter has mapped executable.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use agent::testing::process::{
    Process, file_name,
    maps::{FileId, Mapping},
};
use xtask::interpreters::Interpreter;

use crate::child;

/// A mapped file, possibly of another root directory.
pub struct Mapped {
    /// Its file name.
    pub name: String,
    /// Device and inode.
    pub id: FileId,
    /// The opened file.
    pub file: File,
}

/// The distinct files that the interpreter has mapped executable, including itself.
pub fn files(interpreter: &Interpreter) -> Vec<Mapped> {
    let program = "import sys; print('ready'); sys.stdout.flush(); sys.stdin.read()";
    let mut child = child::start(
        Command::new(&interpreter.path)
            .args(["-E", "-s", "-S", "-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line.trim(), "ready", "{interpreter}");
    let process = Process::open(child.id()).unwrap();
    let mut files: Vec<Mapped> = Vec::new();
    for mapping in process.mappings().unwrap() {
        if let Some(mapped) = &mapping.file
            && mapping.permissions.execute
            && files.iter().all(|file| file.id != mapped.id)
        {
            files.push(Mapped {
                name: String::from_utf8_lossy(file_name(&mapped.path)).into_owned(),
                id: mapped.id,
                file: open(&process, &mapping),
            });
        }
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "{interpreter}");
    files
}

/// Opens the file of a mapping, possibly of another root directory.
fn open(process: &Process, mapping: &Mapping) -> File {
    let pid = process.pid();
    let (start, end) = (mapping.start, mapping.end);
    File::open(format!("/proc/{pid}/map_files/{start:x}-{end:x}")).unwrap()
}
