//! Control groups of the kernel, as container runtimes create them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::id,
    thread,
    time::{Duration, Instant},
};

/// Mount point of the preferred hierarchy.
fn hierarchy() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    assert!(
        mount.is_some(),
        "control groups of version 2 are not mounted"
    );
    mount.unwrap()
}

/// Control groups, removed on drop.
pub struct Groups {
    top: PathBuf,
    made: Vec<PathBuf>,
}

impl Groups {
    /// A group of this test, in which the others are.
    pub fn new(name: &str) -> Self {
        let top = hierarchy().join(format!("agent-{name}-{}", id()));
        let mut groups = Self {
            top: top.clone(),
            made: Vec::new(),
        };
        groups.make(&top);
        groups
    }

    fn make(&mut self, path: &Path) {
        fs::create_dir(path).unwrap();
        self.made.push(path.to_owned());
    }

    /// Creates a group with all its parents.
    pub fn add(&mut self, path: &str) -> PathBuf {
        let mut at = self.top.clone();
        for part in path.split('/') {
            at.push(part);
            if !at.exists() {
                self.make(&at);
            }
        }
        at
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // A process that has just ended may still be counted.
            let start = Instant::now();
            while fs::remove_dir(path).is_err() && start.elapsed() < Duration::from_secs(2) {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
