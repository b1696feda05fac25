//! Parses `/proc/PID/cgroup`.

use super::{
    container::{Container, PodReference},
    names::{self, GroupName},
};

/// Most lines that are parsed; cgroup v1 has about 15 hierarchies.
const MAX_LINES: usize = 64;

/// Most nested control groups that are parsed.
pub(super) const MAX_DEPTH: usize = 64;

/// Suffix that the kernel appends to the path of a removed control group.
const DELETED: &str = " (deleted)";

/// The control groups of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup {
    /// The most specific of its paths.
    pub path: String,
    /// Its containers, the outermost first.
    pub containers: Vec<Container>,
    /// Its pod of Kubernetes, if no container is around it.
    pub pod: Option<PodReference>,
    /// Whether a user manager is around its containers: their names are claims of that user.
    pub is_of_user: bool,
    /// The innermost systemd unit, `X.service` or `X.scope`, inside its container or, without one,
    /// on the host; the scope of a container itself is not a unit.
    pub unit: Option<String>,
    /// The innermost systemd slice inside its container or on the host.
    pub slice: Option<String>,
    /// User ID of the user manager that runs the unit; [`None`] for the system manager.
    pub unit_user: Option<u32>,
    /// All its distinct paths.
    paths: Vec<String>,
}

/// Suffixes of units of systemd that have processes.
const UNITS: [&str; 3] = [".service", ".scope", ".slice"];

/// The name of a unit without its suffix.
#[must_use]
pub fn stem_of_unit(name: &str) -> &str {
    let stem = UNITS.iter().find_map(|suffix| name.strip_suffix(suffix));
    stem.unwrap_or(name)
}

/// Whether the name of a unit says of what type it is; one that does not is a service, as for `systemctl`.
#[must_use]
pub fn is_whole_unit_name(name: &str) -> bool {
    stem_of_unit(name) != name
}

impl Cgroup {
    /// Parses the contents of a file `/proc/PID/cgroup`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut lines: Vec<(Hierarchy, &[u8])> = text
            .split(|&byte| byte == b'\n')
            .take(MAX_LINES)
            .filter_map(line)
            .collect();
        lines.sort_by_key(|&(hierarchy, _)| hierarchy);
        let mut paths: Vec<String> = Vec::new();
        for (_, path) in lines {
            let path = String::from_utf8_lossy(path);
            let path = path.strip_suffix(DELETED).unwrap_or(&path);
            if !paths.iter().any(|other| other == path) {
                paths.push(path.to_owned());
            }
        }
        let mut best = Self::default();
        for path in &paths {
            let found = Self::of_path(path);
            if best.path.is_empty() || found.specificity() > best.specificity() {
                best = found;
            }
        }
        best.paths = paths;
        best
    }

    /// The container that counts: the outermost one.
    #[must_use]
    pub fn container(&self) -> Option<&Container> {
        self.containers.first()
    }

    /// Whether one of its paths is `ancestor` or below it.
    #[must_use]
    pub fn is_within(&self, ancestor: &str) -> bool {
        let ancestor = ancestor.trim_end_matches('/');
        self.paths.iter().any(|path| {
            path.strip_prefix(ancestor)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Units and slices of systemd that it is in, the outermost first: those of the host, since names in containers are
    /// claims.
    pub fn units(&self) -> impl Iterator<Item = &str> {
        let is_of_host = self.containers.is_empty() && self.pod.is_none();
        let path = if is_of_host { &*self.path } else { "" };
        path.split('/').filter(|part| is_whole_unit_name(part))
    }

    fn of_path(path: &str) -> Self {
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| !part.is_empty() && *part != "..")
            .take(MAX_DEPTH)
            .collect();
        let mut found = Self {
            path: path.to_owned(),
            ..Self::default()
        };
        for (index, part) in parts.iter().enumerate() {
            let before = &parts[..index];
            match GroupName::of(part, before, parts.get(index + 1).copied()) {
                GroupName::Container(container) => found.enter(container),
                GroupName::Pod(pod) => found.enter_pod(pod),
                GroupName::PodAndContainer(pod, container) => {
                    found.enter_pod(pod);
                    found.enter(container);
                }
                GroupName::Unit => {
                    found.unit = Some((*part).to_owned());
                    found.unit_user = found.unit_user.or_else(|| names::manager_of_user(part));
                    let is_outermost = found.containers.is_empty() && found.pod.is_none();
                    found.is_of_user |= is_outermost && found.unit_user.is_some();
                }
                GroupName::Slice => found.slice = Some((*part).to_owned()),
                GroupName::Other => {}
            }
        }
        found
    }

    /// Adds a pod, unless a container, a pod or a user is around it.
    fn enter_pod(&mut self, pod: PodReference) {
        if self.containers.is_empty() && !self.is_of_user {
            self.pod.get_or_insert(pod);
        }
    }

    /// Adds a container; units and slices outside it no longer count.
    fn enter(&mut self, container: Container) {
        self.containers.push(container);
        self.unit = None;
        self.slice = None;
        self.unit_user = None;
    }

    /// Ranks paths: the greater, the more specific.
    fn specificity(&self) -> (usize, bool, bool, bool) {
        let (unit, slice) = (self.unit.is_some(), self.slice.is_some());
        (self.containers.len(), self.pod.is_some(), unit, slice)
    }
}

/// A hierarchy of control groups, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hierarchy {
    Unified,
    Systemd,
    Other,
}

/// Parses a line `ID:CONTROLLERS:PATH`; the path may contain any byte but a newline.
fn line(line: &[u8]) -> Option<(Hierarchy, &[u8])> {
    let mut fields = line.splitn(3, |&byte| byte == b':');
    let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    if id.is_empty() || !id.iter().all(u8::is_ascii_digit) || path.first() != Some(&b'/') {
        return None;
    }
    let hierarchy = match controllers {
        b"" => Hierarchy::Unified,
        b"name=systemd" => Hierarchy::Systemd,
        _ => Hierarchy::Other,
    };
    Some((hierarchy, path))
}
