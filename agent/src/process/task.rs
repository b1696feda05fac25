//! What `/proc` has of a process and its threads without reading their memory.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::Read as _,
};

use super::procfs::{Process, numbers};

/// Most bytes that are read.
const MAX_BYTES: u64 = 1024;

/// The same of `status`, where the names of control groups and masks of processors take more.
const STATUS_BYTES: u64 = 64 << 10;

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
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return HashMap::new();
    };
    let is_nested = process.namespace_pids().len() > 1;
    let ids = threads.take(MAX_THREADS).filter_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        if !is_nested {
            return Some((id, id));
        }
        let status = read_up_to(&format!("/proc/{pid}/task/{id}/status"), STATUS_BYTES)?;
        let own = *numbers(&status, "NSpid:").last()?;
        Some((own, id))
    });
    ids.collect()
}

/// The context switches of a thread that is on no processor and does not wait for one; [`None`] where it is, has ended,
/// or that cannot be read.
///
/// A thread with the same number twice did not run in between: it is counted when it leaves a processor. The thread that
/// asks must be another one: of itself the kernel shows the call that reads.
#[must_use]
pub fn switches_at_rest(pid: u32, tid: u32) -> Option<u64> {
    let path = |file| format!("/proc/{pid}/task/{tid}/{file}");
    let switches = || {
        let status = read_up_to(&path("status"), STATUS_BYTES)?;
        let count = |name| numbers(&status, name).first().copied();
        let voluntary = count("voluntary_ctxt_switches:")?;
        Some(u64::from(voluntary) + u64::from(count("nonvoluntary_ctxt_switches:")?))
    };
    let before = switches()?;
    // The kernel looks whether the thread has left its processor.
    let call = read(&path("syscall"))?;
    let is_at_rest = !call.is_empty() && !call.starts_with(b"running");
    (is_at_rest && switches()? == before).then_some(before)
}

/// Whether a process is stopped, by a signal or a debugger.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    let stat = read(&format!("/proc/{pid}/stat"));
    stat.is_some_and(|stat| matches!(state(&stat), Some(b'T' | b't')))
}

/// The state in a file `stat`.
fn state(stat: &[u8]) -> Option<u8> {
    // `comm` may contain any byte.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat[end + 1..].trim_ascii_start().first().copied()
}

fn read(path: &str) -> Option<Vec<u8>> {
    read_up_to(path, MAX_BYTES)
}

fn read_up_to(path: &str, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        hint,
        sync::{
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        thread,
        time::Duration,
    };

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

    #[test]
    fn a_thread_that_waits_is_at_rest_and_one_that_runs_is_not() {
        let pid = std::process::id();
        let tid = || {
            rustix::thread::gettid()
                .as_raw_nonzero()
                .get()
                .cast_unsigned()
        };
        let is_over = AtomicBool::new(false);
        let (ids, started) = mpsc::channel();
        let (end, waiting) = mpsc::channel::<()>();
        let (running, waiting) = thread::scope(|threads| {
            threads.spawn({
                let ids = ids.clone();
                move || (ids.send(tid()), waiting.recv())
            });
            let waits = started.recv().unwrap();
            threads.spawn(|| {
                ids.send(tid()).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
            let runs = started.recv().unwrap();
            let running = switches_at_rest(pid, runs);
            // It is on its way to its wait for a moment.
            let waiting = (0..1000).find_map(|_| {
                thread::sleep(Duration::from_millis(1));
                let switches = switches_at_rest(pid, waits)?;
                Some((switches, switches_at_rest(pid, waits)))
            });
            is_over.store(true, Ordering::Relaxed);
            end.send(()).unwrap();
            (running, waiting)
        });
        assert_eq!(running, None);
        assert!(waiting.is_some_and(|(first, second)| second == Some(first)));
    }
}
