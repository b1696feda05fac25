//! `/proc/PID/cgroup`: pods, containers and units by the names of control groups.

use agent::testing::process::cgroup::Cgroup;

pub(super) fn run(text: &[u8]) {
    let cgroup = Cgroup::parse(text);
    let _ = (cgroup.container(), &cgroup.pod);
    assert!(cgroup.path.is_empty() || cgroup.is_within("/"));
    let _ = cgroup.is_within("/system.slice");
}
