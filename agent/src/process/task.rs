//! What `/proc` has of a process and its threads without reading their memory.

use std::{collections::HashMap, fs::File, io::Read as _};

use super::{
    procfs::{Process, comm_and_fields},
    task_files::{own_thread_id, task_ids},
};

/// Most bytes that are read.
const MAX_BYTES: u64 = 1024;

/// Most threads whose ids are read.
const MAX_THREADS: usize = 64 << 10;

/// The kernel's name of a thread; [`None`] where it has ended.
#[must_use]
pub fn thread_comm(pid: u32, tid: u32) -> Option<String> {
    let comm = read(&format!("/proc/{pid}/task/{tid}/comm"))?;
    Some(String::from_utf8_lossy(&comm).trim_end().to_owned())
}

/// The ids of a process's threads for the agent, by those in the process's own PID namespace.
#[must_use]
pub fn thread_ids(process: &Process) -> HashMap<u32, u32> {
    let pid = process.pid();
    let is_nested = process.namespace_pids().len() > 1;
    let ids = task_ids(pid).take(MAX_THREADS).filter_map(|id| {
        let own = if is_nested {
            own_thread_id(pid, id)?
        } else {
            id
        };
        Some((own, id))
    });
    ids.collect()
}

/// Whether a process is stopped, by a signal or a debugger.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    let stat = read(&format!("/proc/{pid}/stat"));
    stat.is_some_and(|stat| matches!(state(&stat), Some(b'T' | b't')))
}

/// The state in a file `stat`.
fn state(stat: &[u8]) -> Option<u8> {
    let (_, mut fields) = comm_and_fields(stat)?;
    fields.next()?.first().copied()
}

fn read(path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_a_name_of_any_bytes() {
        assert_eq!(state(b"7 (a) T b) S 1 7"), Some(b'S'));
        assert_eq!(state(b"7 (a) T 1"), Some(b'T'));
        assert_eq!(state(b"7 (a)"), None);
        assert_eq!(state(b""), None);
    }

    #[test]
    fn this_process_runs_and_its_threads_have_names() {
        let pid = std::process::id();
        assert!(!is_stopped(pid));
        assert!(thread_comm(pid, pid).is_some_and(|comm| !comm.is_empty()));
        assert_eq!(thread_comm(pid, u32::MAX), None);
        let ids = thread_ids(&Process::open(pid).unwrap());
        assert!(ids.values().any(|id| *id == pid));
    }
}
