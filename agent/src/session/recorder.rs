//! Records the inputs of a session into the file named by `AGENT_RECORDING`, for golden tests.
//!
//! Only processes whose executable is below the folder named by `AGENT_RECORDING_OF` are recorded;
//! records of others are left out when the recording is packed.

use std::{
    collections::HashSet,
    env,
    fs::{self, File, OpenOptions},
    path::PathBuf,
    sync::{LazyLock, Mutex, PoisonError},
};

use agent_common::record::{Header, ProcessEvent, RecordKind};
use zerocopy::FromBytes as _;

use super::recording::{Entry, RecordedEvent, RecordedExecutable, RecordedFinding};
use crate::{binaries::executables::Executables, bpf::Counters, process::Process, profile};

/// The variable with the file.
pub const FILE: &str = "AGENT_RECORDING";

/// The variable with the folder of the programs.
pub const PROGRAMS: &str = "AGENT_RECORDING_OF";

/// Files of a process in `/proc` that are recorded.
const FILES: [&str; 6] = ["status", "comm", "maps", "cgroup", "cmdline", "environ"];

static LOG: LazyLock<Option<(Mutex<File>, PathBuf)>> = LazyLock::new(|| {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(env::var_os(FILE)?);
    Some((Mutex::new(file.ok()?), env::var_os(PROGRAMS)?.into()))
});

fn write(entry: &Entry) {
    if let Some((file, _)) = &*LOG {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A recording that is not complete cannot be packed.
        let _ = entry.write(&mut *file);
    }
}

/// Records a record, but no copies of stacks: these may hold secrets, and a replay has no code that it could walk on in.
pub(super) fn record(bytes: &[u8]) {
    let kind = Header::read_from_prefix(bytes).map(|(header, _)| header.kind);
    if !matches!(
        kind,
        Ok(RecordKind::STACK_PAGE | RecordKind::UNFINISHED_STACK)
    ) {
        write(&Entry::Record(bytes.to_vec()));
    }
}

pub(super) fn event(event: &ProcessEvent) {
    write(&Entry::Event(RecordedEvent {
        kind: event.kind.0,
        pid: event.tgid,
        parent: event.parent,
    }));
}

pub(super) fn counters(counters: &Counters) {
    write(&Entry::Counters(counters.0.to_vec()));
}

/// Records a process that was added, with the files that it maps.
pub(super) fn process(
    process: &profile::Process,
    opened: Option<&Process>,
    executables: &Executables,
) {
    write_executables(process.pid, executables);
    let is_recorded = LOG
        .as_ref()
        .is_some_and(|(_, programs)| process.executable.starts_with(programs));
    if is_recorded {
        let finding = RecordedFinding::new(process, opened.map(files));
        write(&Entry::Finding(finding));
    }
}

/// Records the numbers of executables that were not recorded yet.
fn write_executables(pid: u32, executables: &Executables) {
    static NUMBERS: Mutex<Option<HashSet<u32>>> = Mutex::new(None);
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let numbers = numbers.get_or_insert_default();
    for executable in executables.of_process(pid) {
        if numbers.insert(executable.number()) {
            write(&Entry::Executable(RecordedExecutable {
                number: executable.number(),
                path: executable.path().to_owned(),
            }));
        }
    }
}

fn files(process: &Process) -> Vec<(String, String)> {
    let folder = PathBuf::from(format!("/proc/{}", process.pid()));
    let text = |name: &&str| {
        let bytes = fs::read(folder.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (
            (*name).to_owned(),
            if *name == "cgroup" {
                groups(&text)
            } else {
                text
            },
        )
    };
    let link = process.executable().to_string_lossy().into_owned();
    let files = FILES.iter().map(text);
    files.chain([("exe".to_owned(), link)]).collect()
}

/// The control groups that all machines have: those of version 2 and systemd's own.
fn groups(text: &str) -> String {
    let lines = text.lines();
    let kept = lines.filter(|line| line.starts_with("0:") || line.contains(":name=systemd:"));
    kept.flat_map(|line| [line, "\n"]).collect()
}
