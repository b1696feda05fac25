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

/// How a thread shares its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// The processor on which it is, or was last.
    pub processor: u32,
    /// Its nice value.
    pub nice: i32,
    /// Its policy.
    pub policy: SchedulingPolicy,
}

/// The policies of the scheduler, by who has precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// Others wait for it: real time, or a deadline.
    Precedent,
    /// It shares with others by weights.
    Ordinary,
    /// It waits for others: batch, or idle.
    Background,
}

/// How a thread shares its processor; [`None`] where it has ended.
#[must_use]
pub fn scheduling(pid: u32, tid: u32) -> Option<Scheduling> {
    scheduling_in(&read(&format!("/proc/{pid}/task/{tid}/stat"))?)
}

/// The same of a file `stat`: the fields 19, 39 and 41.
fn scheduling_in(stat: &[u8]) -> Option<Scheduling> {
    const NICE: usize = 16;
    const PROCESSOR: usize = 36;
    const POLICY: usize = 38;
    const OTHER: i32 = 0;
    const BATCH: i32 = 3;
    const IDLE: i32 = 5;
    const EXTENSIBLE: i32 = 7;

    let (_, fields) = comm_and_fields(stat)?;
    let fields: Vec<&[u8]> = fields.collect();
    let number = |index: usize| -> Option<i32> {
        let field = std::str::from_utf8(fields.get(index)?).ok()?;
        field.parse().ok()
    };
    Some(Scheduling {
        processor: number(PROCESSOR)?.try_into().ok()?,
        nice: number(NICE)?,
        policy: match number(POLICY)? {
            OTHER | EXTENSIBLE => SchedulingPolicy::Ordinary,
            BATCH | IDLE => SchedulingPolicy::Background,
            _ => SchedulingPolicy::Precedent,
        },
    })
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
    fn how_a_thread_is_scheduled_follows_a_name_of_any_bytes() {
        let stat = |nice: i32, processor: u32, policy: u32| {
            let zeros = |count| "0 ".repeat(count);
            format!(
                "7 (a) R b) R {}{nice} {}{processor} 0 {policy} 0",
                zeros(15),
                zeros(19)
            )
        };
        let expected = |policy| Scheduling {
            processor: 3,
            nice: -5,
            policy,
        };
        for (number, policy) in [
            (0, SchedulingPolicy::Ordinary),
            (3, SchedulingPolicy::Background),
            (5, SchedulingPolicy::Background),
            (1, SchedulingPolicy::Precedent),
            (2, SchedulingPolicy::Precedent),
            (6, SchedulingPolicy::Precedent),
        ] {
            let found = scheduling_in(stat(-5, 3, number).as_bytes());
            assert_eq!(found, Some(expected(policy)), "{number}");
        }
        assert_eq!(scheduling_in(b"7 (a) R 1 2"), None);
        let pid = std::process::id();
        assert!(scheduling(pid, pid).is_some());
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
