//! Descendants of processes.

use std::{
    collections::{HashMap, VecDeque},
    fs,
};

use super::procfs::field;

/// Most processes that are read; the kernel allows 2^22.
const MAX_PROCESSES: usize = 1 << 22;

/// A process with its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descendant {
    /// PID.
    pub pid: u32,
    /// PID of its parent.
    pub parent: u32,
}

/// The living descendants of these processes, each once, parents before their children.
#[must_use]
pub fn descendants(pids: &[u32]) -> Vec<Descendant> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries.take(MAX_PROCESSES) {
        let Some(child) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // The process may have ended since the directory was read.
        if let Ok(stat) = fs::read(entry.path().join("stat"))
            && let Some(parent) = parent(&stat)
        {
            children.entry(parent).or_default().push(child);
        }
    }
    let mut found: Vec<Descendant> = Vec::new();
    let mut next: VecDeque<u32> = pids.iter().copied().collect();
    while let Some(parent) = next.pop_front() {
        let started = children.remove(&parent).unwrap_or_default();
        next.extend(&started);
        found.extend(started.into_iter().map(|pid| Descendant { pid, parent }));
    }
    found
}

/// The parent's PID in a file `stat`: the second field after `comm`, which may contain any byte.
#[must_use]
pub fn parent(stat: &[u8]) -> Option<u32> {
    u32::try_from(field(stat, 1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::{descendants, parent};
    use std::{
        io::Read as _,
        process::{Command, Stdio, id},
    };

    #[test]
    fn children_and_their_children_are_found() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = shell.stdout.take().unwrap();
        let mut line = [0; 16];
        let bytes = output.read(&mut line).unwrap();
        let sleep: u32 = str::from_utf8(&line[..bytes])
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let found = descendants(&[id(), shell.id()]);
        assert_eq!(found.iter().filter(|it| it.pid == sleep).count(), 1);
        let parent_of = |pid| found.iter().find(|it| it.pid == pid).map(|it| it.parent);
        assert_eq!(parent_of(shell.id()), Some(id()));
        assert_eq!(parent_of(sleep), Some(shell.id()));
        let _ = Command::new("kill").arg(sleep.to_string()).status();
        shell.wait().unwrap();
    }

    #[test]
    fn comm_may_contain_any_byte() {
        assert_eq!(parent(b"12 (a) S 7) R 5 12 12 0"), Some(5));
        assert_eq!(parent(b"12 (a"), None);
        assert_eq!(parent(b"12 (a) R"), None);
    }
}
