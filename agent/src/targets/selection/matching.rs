//! Which of the processes that start later are selected, by the same rules as at the start.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    criterion::{Criterion, Match, PodNames},
    running::{RunningProcess, running},
};
use crate::process::Process;

/// What selects processes, from any thread.
#[derive(Debug)]
pub struct Matching {
    criteria: Vec<Criterion>,
    pods: Mutex<PodNames>,
}

impl Matching {
    pub(super) fn new(criteria: Vec<Criterion>) -> Self {
        Self {
            criteria,
            pods: Mutex::default(),
        }
    }

    /// Whether a process is selected now, by what is read of it; the agent itself is not, nor is one that has ended or
    /// may not be read.
    #[must_use]
    pub fn of(&self, pid: u32) -> Option<Match> {
        if pid == std::process::id() {
            return None;
        }
        let process = Process::open(pid).ok()?;
        self.of_process(&RunningProcess::of(&process))
    }

    /// All running processes that are selected.
    #[must_use]
    pub fn running(&self) -> Vec<(u32, Match)> {
        self.pods().forget_unknown();
        let all = running().into_iter();
        all.filter_map(|process| Some((process.pid, self.of_process(&process)?)))
            .collect()
    }

    fn of_process(&self, process: &RunningProcess) -> Option<Match> {
        let mut pods = self.pods();
        let matching = self.criteria.iter();
        let mut matching = matching.filter(|criterion| criterion.matches(process, &mut pods));
        let first = matching.next()?.kind();
        Some(matching.fold(first, |matched, criterion| {
            criterion.kind().or(Some(matched))
        }))
    }

    fn pods(&self) -> MutexGuard<'_, PodNames> {
        // Whoever held it has only looked names up.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &str, cgroup: &str) -> RunningProcess {
        RunningProcess {
            pid: 7,
            names: vec![name.to_owned()],
            cgroup: crate::process::cgroup::Cgroup::parse(format!("0::{cgroup}\n").as_bytes()),
        }
    }

    #[test]
    fn a_control_group_lasts_longer_than_a_name() {
        let criteria = [
            Criterion::Name("web".to_owned()),
            Criterion::Cgroup("/a".to_owned()),
        ];
        let matching = Matching::new(criteria.to_vec());
        let of = |name, cgroup| matching.of_process(&process(name, cgroup));
        assert_eq!(of("web", "/"), Some(Match::Name));
        assert_eq!(of("sh", "/a"), Some(Match::Group));
        assert_eq!(of("web", "/a"), Some(Match::Group));
        assert_eq!(of("sh", "/"), None);
    }

    #[test]
    fn running_processes_are_read() {
        let pid = std::process::id();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let matching = Matching::new(vec![Criterion::Name("sleep".to_owned())]);
        let found = (matching.of(child.id()), matching.running());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.0, Some(Match::Name));
        assert!(found.1.contains(&(child.id(), Match::Name)));
        let all = Matching::new(vec![Criterion::Name("*".to_owned())]);
        assert_eq!(all.of(pid), None);
        assert_eq!(matching.of(child.id()), None);
    }
}
