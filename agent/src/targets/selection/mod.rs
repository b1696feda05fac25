//! Which running processes a command is about: those with these ids, and all that one of the criteria selects.
//!
//! Processes are selected when the command starts; what a criterion selects of those that start later is said by
//! [`Matching`].
//!
//! Invariants: each process is selected once, in the order in which the command line has them; there are at
//! most [`MAX_SELECTED`]; the agent itself is none of them unless its id is given.

mod criterion;
mod matching;
mod running;

pub use self::{
    criterion::{Criterion, Match},
    matching::Matching,
};

use std::{collections::HashMap, fmt, sync::Arc};

use self::{
    criterion::{PodNames, shown},
    running::{RunningProcess, running},
};

/// Most processes of one command. Each needs a descriptor until it has ended, and its examination.
pub const MAX_SELECTED: usize = 256;

/// Most names that a message has.
const MAX_NAMED: usize = 3;

/// Least similarity of a name that could have been meant.
const SIMILAR: f64 = 0.8;

/// What a command line says about the processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSelection {
    /// By their ids, as the agent sees them.
    pub pids: Vec<u32>,
    /// By what they are; each selects processes.
    pub criteria: Vec<Criterion>,
}

/// As the options that select them.
impl fmt::Display for ProcessSelection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pids = self.pids.iter().map(|pid| format!("--pid {pid}"));
        let criteria = self.criteria.iter().map(Criterion::to_string);
        let options: Vec<_> = criteria.chain(pids).collect();
        formatter.write_str(&options.join(" "))
    }
}

/// The selected processes.
#[derive(Clone, Debug)]
pub struct Selected {
    /// Each of them once.
    pub processes: Vec<SelectedProcess>,
    /// What selects those that start later; [`None`] where nothing does.
    pub matching: Option<Arc<Matching>>,
}

/// A selected process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedProcess {
    /// Its id.
    pub pid: u32,
    /// Whether its id was given: then it must be there.
    pub is_required: bool,
    /// By what it matches, whether its id was given or not.
    pub matched: Option<Match>,
}

/// Why there are no processes to go on with.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectionError {
    /// There are too many.
    #[error(
        "{count} processes are selected, and one command takes at most {MAX_SELECTED}: select fewer, or \
         sample all of the host with `agent run` or `agent top`"
    )]
    TooMany {
        /// How many.
        count: usize,
    },
    /// No process is like this.
    #[error("no process matches {criterion}: {}{}", meant(closest), criterion.advice())]
    NoMatch {
        /// What was looked for.
        criterion: Criterion,
        /// Similar names, each with a process that has it.
        closest: Vec<(String, u32)>,
    },
    /// The start of several ids.
    #[error(
        "{criterion} is the start of several ids, {}: write more of it",
        list(ids)
    )]
    Ambiguous {
        /// What was looked for.
        criterion: Criterion,
        /// The ids.
        ids: Vec<String>,
    },
    /// A command takes one.
    #[error(
        "{count} processes are selected, and this command takes one: choose it with --pid, for example {}",
        list(pids)
    )]
    NotOne {
        /// How many.
        count: usize,
        /// Some of them.
        pids: Vec<u32>,
    },
}

/// For example `did you mean web (process 7) or wep (process 8)? `.
fn meant(closest: &[(String, u32)]) -> String {
    let names = closest
        .iter()
        .map(|(name, pid)| format!("{} (process {pid})", shown(name)));
    match names.collect::<Vec<_>>().join(" or ") {
        names if names.is_empty() => names,
        names => format!("did you mean {names}? "),
    }
}

/// For example `a, b, c`.
fn list<T: ToString>(all: &[T]) -> String {
    let words: Vec<_> = all.iter().take(MAX_NAMED).map(T::to_string).collect();
    words.join(", ")
}

impl ProcessSelection {
    /// Whether nothing is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.criteria.is_empty()
    }

    /// Whether it can only be one process.
    #[must_use]
    pub fn is_one(&self) -> bool {
        let mut pids = self.pids.iter();
        let first = pids.next();
        first.is_some() && pids.all(|pid| Some(pid) == first) && self.criteria.is_empty()
    }

    /// The processes.
    ///
    /// # Errors
    ///
    /// When a criterion selects none, and when there are too many.
    pub fn find(&self) -> Result<Selected, SelectionError> {
        let running = if self.criteria.is_empty() {
            Vec::new()
        } else {
            running()
        };
        self.find_in(&running)
    }

    /// The process.
    ///
    /// # Errors
    ///
    /// When there is none or more than one.
    pub fn find_one(&self) -> Result<u32, SelectionError> {
        match &*self.find()?.processes {
            [one] => Ok(one.pid),
            several => Err(SelectionError::NotOne {
                count: several.len(),
                pids: several.iter().map(|one| one.pid).collect(),
            }),
        }
    }

    fn find_in(&self, running: &[RunningProcess]) -> Result<Selected, SelectionError> {
        let mut positions = HashMap::new();
        let mut processes: Vec<SelectedProcess> = Vec::new();
        let mut add = |pid, matched: Option<Match>| {
            let position = *positions.entry(pid).or_insert(processes.len());
            if position == processes.len() {
                processes.push(SelectedProcess {
                    pid,
                    is_required: matched.is_none(),
                    matched,
                });
            } else if let Some(matched) = matched {
                let before = &mut processes[position].matched;
                *before = Some(matched.or(*before));
            }
        };
        for &pid in &self.pids {
            add(pid, None);
        }
        let mut pods = PodNames::default();
        let mut criteria = Vec::new();
        for criterion in &self.criteria {
            let selected = select(criterion, running, &mut pods)?;
            for process in &selected {
                add(process.pid, Some(criterion.kind()));
            }
            criteria.push(criterion.of(selected[0]));
        }
        if processes.len() > MAX_SELECTED {
            return Err(SelectionError::TooMany {
                count: processes.len(),
            });
        }
        let matching = (!criteria.is_empty()).then(|| Arc::new(Matching::new(criteria)));
        Ok(Selected {
            processes,
            matching,
        })
    }
}

/// The processes that a criterion selects, at least one.
fn select<'a>(
    criterion: &Criterion,
    running: &'a [RunningProcess],
    pods: &mut PodNames,
) -> Result<Vec<&'a RunningProcess>, SelectionError> {
    let all = running.iter();
    let selected: Vec<_> = all.filter(|it| criterion.matches(it, pods)).collect();
    if selected.is_empty() {
        return Err(SelectionError::NoMatch {
            criterion: criterion.clone(),
            closest: closest(criterion, running, pods),
        });
    }
    if matches!(criterion, Criterion::Container(_)) {
        let mut ids: Vec<String> = Vec::new();
        for id in selected.iter().flat_map(|it| criterion.names_of(it, pods)) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let is_whole = ids.iter().any(|id| id == criterion.value());
        if ids.len() > 1 && !is_whole {
            let criterion = criterion.clone();
            return Err(SelectionError::Ambiguous { criterion, ids });
        }
    }
    Ok(selected)
}

/// The names of running processes that are most like what was looked for, the closest first.
fn closest(
    criterion: &Criterion,
    running: &[RunningProcess],
    pods: &mut PodNames,
) -> Vec<(String, u32)> {
    let wanted = criterion.compared(criterion.value());
    let mut rated: Vec<(f64, String, u32)> = Vec::new();
    for process in running {
        for name in criterion.names_of(process, pods) {
            let similarity = strsim::jaro_winkler(&wanted, &criterion.compared(&name));
            let is_new = rated.iter().all(|(_, other, _)| *other != name);
            if similarity >= SIMILAR && is_new {
                rated.push((similarity, name, process.pid));
                rated.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
                rated.truncate(MAX_NAMED);
            }
        }
    }
    let names = rated.into_iter();
    names.map(|(_, name, pid)| (name, pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(names: &[&str]) -> Vec<RunningProcess> {
        let numbered = (10..).zip(names);
        numbered
            .map(|(pid, &name)| RunningProcess {
                pid,
                names: vec![name.to_owned()],
                ..RunningProcess::default()
            })
            .collect()
    }

    fn by_name(pids: &[u32], names: &[&str]) -> ProcessSelection {
        let criteria = names.iter().map(|&name| Criterion::Name(name.to_owned()));
        ProcessSelection {
            pids: pids.to_vec(),
            criteria: criteria.collect(),
        }
    }

    fn found(selection: &ProcessSelection, names: &[&str]) -> Result<Vec<u32>, String> {
        let found = selection.find_in(&running(names));
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.processes.iter().map(|one| one.pid).collect())
    }

    #[test]
    fn each_process_is_selected_once() {
        assert_eq!(found(&by_name(&[7, 3, 7, 3], &[]), &[]), Ok(vec![7, 3]));
        let all = by_name(&[11], &["web", "w*"]);
        assert_eq!(found(&all, &["web", "db", "web"]), Ok(vec![11, 10, 12]));
    }

    #[test]
    fn too_many_are_refused() {
        let most = u32::try_from(MAX_SELECTED).unwrap();
        let pids = |last| by_name(&(1..=last).collect::<Vec<_>>(), &[]);
        assert!(pids(most).find().is_ok());
        let count = MAX_SELECTED + 1;
        assert_eq!(
            pids(most + 1).find().err(),
            Some(SelectionError::TooMany { count })
        );
    }

    #[test]
    fn what_nothing_matches_is_named_with_the_closest() {
        let names = ["gunicorn", "nginx", "guvcorn"];
        assert_eq!(
            found(&by_name(&[], &["gunicron*"]), &names).unwrap_err(),
            "no process matches --name gunicron*: did you mean gunicorn (process 10) or guvcorn (process 12)? \
             `agent top` shows what runs"
        );
        assert_eq!(
            found(&by_name(&[], &["zzz"]), &names).unwrap_err(),
            "no process matches --name zzz: `agent top` shows what runs"
        );
    }

    #[test]
    fn each_option_says_what_shows_what_it_selects() {
        let id = "0123456789abcdef".repeat(4);
        let groups = [
            "/system.slice/web.service".to_owned(),
            "/system.slice/dbus.service".to_owned(),
            format!("/docker/{id}"),
            "/kubepods/pod6f1c1c5e-0b0a-4d2e-9a1f-0123456789ab".to_owned(),
        ];
        let running = (10..).zip(&groups).map(|(pid, path)| RunningProcess {
            pid,
            cgroup: crate::process::cgroup::Cgroup::parse(format!("0::{path}\n").as_bytes()),
            ..RunningProcess::default()
        });
        let running: Vec<_> = running.collect();
        for (criterion, expected) in [
            (
                Criterion::Unit("webb".to_owned()),
                "--unit webb: did you mean web.service (process 10)? `systemctl list-units` shows units",
            ),
            (
                Criterion::Unit("zzz".to_owned()),
                "--unit zzz: `systemctl list-units` shows units",
            ),
            (
                Criterion::Container("0123456789ac".to_owned()),
                "--container 0123456789ac: did you mean 0123456789ab (process 12)? `docker ps`, `podman ps` or \
                 `crictl ps` shows containers with their ids",
            ),
            (
                Criterion::Pod("6f1c1c5e-0b0a-4d2e-9a1f-0123456789ac".to_owned()),
                "--pod 6f1c1c5e-0b0a-4d2e-9a1f-0123456789ac: did you mean \
                 6f1c1c5e-0b0a-4d2e-9a1f-0123456789ab (process 13)? `crictl pods` or `kubectl get pods` shows pods",
            ),
            (
                Criterion::Cgroup("system.slice/webb.service".to_owned()),
                "--cgroup system.slice/webb.service: did you mean /system.slice/web.service (process 10)? \
                 `systemd-cgls` shows control groups",
            ),
        ] {
            let selection = ProcessSelection {
                criteria: vec![criterion],
                ..ProcessSelection::default()
            };
            let message = selection.find_in(&running).unwrap_err().to_string();
            assert_eq!(message, format!("no process matches {expected}"));
        }
    }

    #[test]
    fn a_command_of_one_process_says_how_many_there_are() {
        let message = by_name(&[1, 2, 3, 4], &[]).find_one().unwrap_err();
        assert_eq!(
            message.to_string(),
            "4 processes are selected, and this command takes one: choose it with --pid, for example 1, 2, 3"
        );
        assert_eq!(by_name(&[4, 4], &[]).find_one(), Ok(4));
    }

    #[test]
    fn the_start_of_several_ids_is_refused() {
        let in_container = |pid, digit: &str| RunningProcess {
            pid,
            cgroup: crate::process::cgroup::Cgroup::parse(
                format!("0::/docker/ab{}", digit.repeat(62)).as_bytes(),
            ),
            ..RunningProcess::default()
        };
        let running = [in_container(1, "c"), in_container(2, "d")];
        let selection = |id: &str| ProcessSelection {
            criteria: vec![Criterion::Container(id.to_owned())],
            ..ProcessSelection::default()
        };
        let message = selection("ab").find_in(&running).unwrap_err().to_string();
        assert_eq!(
            message,
            "--container ab is the start of several ids, abcccccccccc, abdddddddddd: write more of it"
        );
        assert_eq!(
            selection("abc").find_in(&running).unwrap().processes[0].pid,
            1
        );
    }
}
