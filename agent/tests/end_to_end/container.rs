//! A process in its own namespaces, with paths that do not exist on the host.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;
use xtask::{interpreters::Interpreter, process::capture};

use super::{
    capture::Capture,
    machine,
    target::{Target, mortal, workload_path},
};

/// Path of the interpreter inside the container.
const PROGRAM: &str = "/opt/python/bin/python";

#[test]
fn a_process_in_a_container_is_profiled_from_the_host() {
    let _machine = machine::shared();
    assert!(!Path::new(PROGRAM).exists());
    // The others already have their own root directories, which all of their tests cover.
    let has_no_root = |interpreter: &Interpreter| interpreter.root().is_none();
    machine::for_each_that(has_no_root, |interpreter| {
        check(&Container::start(interpreter, 1));
    });
}

/// Like a container in a container.
#[test]
fn a_process_in_nested_namespaces_is_profiled_from_the_host() {
    let _machine = machine::shared();
    check(&Container::start(machine::one_interpreter(), 2));
}

fn check(container: &Container) {
    let pid = container.pid();
    assert_eq!(ids(pid).len(), 1 + container.depth);
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    assert_eq!(program, Path::new(PROGRAM));

    let expected = container.unshare.threads().remove(0);
    assert!(expected.stack.last().unwrap().place.starts_with("/srv/"));
    let mut found = Capture::pprof(pid, "-d 1 -r 199").threads();
    for thread in &mut found {
        // The interpreter only has the id of its own namespace.
        thread.id = expected.id;
    }
    assert_eq!(found, [expected]);
}

/// A process in a container; it ends together with the `unshare` that created its namespaces.
struct Container {
    unshare: Target,
    /// Number of nested PID namespaces below the host's.
    depth: usize,
    _root: TempDir,
}

impl Container {
    fn start(interpreter: &Interpreter, depth: usize) -> Self {
        let script = "import os, sys; print(os.path.realpath(sys.executable)); \
                      print(os.path.dirname(os.__file__))";
        let mut python = Command::new(&interpreter.path);
        let output = capture(python.args(["-Esc", script])).unwrap();
        let (program, modules) = output.split_once('\n').unwrap();
        let root = tempfile::tempdir().unwrap();
        let mut command = mortal("unshare");
        for _ in 1..depth {
            command.args(["--pid", "--fork", "--kill-child", "unshare"]);
        }
        command
            .args(["--mount", "--propagation", "private", "--pid", "--fork"])
            .args(["--uts", "--ipc", "--kill-child", "sh"])
            .arg(workload_path("container").with_extension("sh"))
            .arg(root.path())
            .args([program, modules])
            .arg(workload_path("renamed"));
        Self {
            unshare: Target::from_command(command),
            depth,
            _root: root,
        }
    }

    /// The process id on the host.
    fn pid(&self) -> u32 {
        (0..self.depth).fold(self.unshare.pid(), |pid, _| {
            let path = format!("/proc/{pid}/task/{pid}/children");
            fs::read_to_string(path).unwrap().trim().parse().unwrap()
        })
    }
}

/// The ids of a process in its PID namespaces, outermost first.
fn ids(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let ids = ids.unwrap().split_whitespace();
    ids.map(|id| id.parse().unwrap()).collect()
}
