//! The structure of the crates: who may use whom.
//!
//! A room may use those below it and never those above; no two files may use each other. Both are
//! stated in `agent/docs/architecture.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};

use architecture::Graph;

/// The rooms of the agent, from the top to the bottom.
const AGENT: &[&str] = &[
    "fuzzing.rs",
    "testing.rs",
    "testing",
    "main.rs",
    "lib.rs",
    "commands",
    "daemon",
    "session",
    "config",
    "export",
    "store",
    "formats",
    "aggregate",
    "threads",
    "bpf",
    "targets",
    "symbolize",
    "python",
    "binaries",
    "process",
    "profile",
    "workers",
    "http_client",
    "text",
    "cache",
];

/// Reads the crate in a folder of the workspace.
fn graph(root: &str) -> Graph {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Graph::read(&workspace.join(root)).unwrap()
}

fn shown(circle: &[PathBuf]) -> String {
    let files: Vec<_> = circle
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    files.join(" → ")
}

#[track_caller]
fn assert_no_circles(root: &str) {
    let circles: Vec<_> = graph(root)
        .circles()
        .iter()
        .map(|circle| shown(circle))
        .collect();
    assert!(
        circles.is_empty(),
        "files of {root} use each other:\n{}",
        circles.join("\n")
    );
}

#[track_caller]
fn assert_only_down(root: &str, rooms: &[&str]) {
    let graph = graph(root);
    let rank = |file: &Path| {
        rooms
            .iter()
            .position(|room| file.starts_with(room))
            .unwrap_or_else(|| panic!("{} of {root} is in no room", file.display()))
    };
    let up: Vec<_> = graph
        .arrows()
        .filter(|(from, to, _)| rank(from) > rank(to))
        .map(|(from, to, names)| format!("{} → {}: {names:?}", from.display(), to.display()))
        .collect();
    assert!(
        up.is_empty(),
        "files of {root} use a room above theirs:\n{}",
        up.join("\n")
    );
}

#[test]
fn rooms_of_the_agent_use_those_below_them() {
    assert_only_down("agent/src/lib.rs", AGENT);
}

#[test]
fn no_files_of_the_agent_use_each_other() {
    assert_no_circles("agent/src/lib.rs");
}

#[test]
fn no_files_of_the_shared_crate_use_each_other() {
    assert_no_circles("agent-common/src/lib.rs");
}

#[test]
fn no_files_of_the_bpf_programs_use_each_other() {
    assert_no_circles("agent-ebpf/src/main.rs");
}

#[test]
fn only_the_room_bpf_uses_aya() {
    assert_confined("aya", &["bpf"]);
    assert_confined("aya_log", &["bpf"]);
}

#[test]
fn only_the_http_client_and_the_server_open_sockets() {
    let rooms = ["http_client", "daemon/http_server"];
    for name in [
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "UnixStream",
        "UnixListener",
    ] {
        assert_confined(name, &rooms);
    }
}

/// Fails where a file outside of `rooms` names `name` in a path.
#[track_caller]
fn assert_confined(name: &str, rooms: &[&str]) {
    let graph = graph("agent/src/lib.rs");
    let outside: Vec<_> = graph
        .foreign
        .iter()
        .filter(|(file, names)| {
            names.contains(name) && !rooms.iter().any(|room| file.starts_with(room))
        })
        .map(|(file, _)| file.display().to_string())
        .collect();
    assert!(outside.is_empty(), "{name} is used in {outside:?}");
}
