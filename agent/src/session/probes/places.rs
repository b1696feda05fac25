//! The files to whose functions probes are attached.

use std::{
    collections::HashMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use tracing::{debug, warn};

use super::sites::{Openers, Place, ProbeSites};
use crate::{
    binaries::probe_points::ProbePoint,
    bpf::{Error, Probes, UprobeEvent},
    process::{Process, RegularFile},
};

/// How long after a file could not be opened, or a probe not attached, it is tried again.
const TRIED_AGAIN: Duration = Duration::from_secs(5);

/// The files in which processes have functions with probes, as [`ProbeSites`] know them.
pub(in crate::session) struct Places {
    sites: ProbeSites,
    files: HashMap<Place, OpenFile>,
    retry: Option<Instant>,
    /// Whether the log says that a probe was refused.
    has_warned: bool,
}

/// A file that is open, and the probes that are attached.
struct OpenFile {
    path: PathBuf,
    points: Vec<ProbePoint>,
    attached: Vec<UprobeEvent>,
    /// So that the path leads to it.
    _file: RegularFile,
}

impl Places {
    pub(in crate::session) fn new(sites: ProbeSites) -> Self {
        Self {
            sites,
            files: HashMap::new(),
            retry: None,
            has_warned: false,
        }
    }

    /// Some of the processes.
    pub(in crate::session) fn processes(&self, most: usize) -> Vec<u32> {
        self.sites.processes(most)
    }

    /// Opens the files that have become known, and gives back those that nobody needs any more; returns whether
    /// there are others than before.
    pub(in crate::session) fn follow(&mut self) -> bool {
        if self.retry.is_some_and(|retry| retry <= Instant::now()) {
            self.retry = None;
            self.sites.try_again();
        }
        let Some(wanted) = self.sites.changed() else {
            return false;
        };
        let wanted: HashMap<_, _> = wanted.into_iter().collect();
        self.files.retain(|place, _| wanted.contains_key(place));
        for (place, openers) in wanted {
            if !self.files.contains_key(&place) {
                self.open(place, &openers);
            }
        }
        true
    }

    fn open(&mut self, place: Place, openers: &Openers) {
        let opened = openers.iter().find_map(|(pid, site)| {
            let process = Process::open(*pid).ok()?;
            let file = process.open_mapped(&site.mapping).ok()?;
            let path = file.kernel_path()?;
            Some(OpenFile {
                path,
                points: site.points.clone(),
                attached: Vec::new(),
                _file: file,
            })
        });
        if let Some(opened) = opened {
            self.files.insert(place, opened);
        } else {
            let subject = self.sites.subject();
            debug!(
                ?place,
                "a file for the probes of {subject} cannot be opened"
            );
            self.retry = Some(Instant::now() + TRIED_AGAIN);
        }
    }

    /// Attaches the probes in all files in which they are not; returns whether there was one.
    pub(in crate::session) fn attach(&mut self, probes: &impl Probes) -> bool {
        let mut is_new = false;
        let mut refused = Vec::new();
        for (place, open) in &mut self.files {
            if !open.attached.is_empty() {
                continue;
            }
            is_new = true;
            let attached = open
                .points
                .iter()
                .map(|point| probes.attach(&open.path, *point, place.process));
            match attached.collect() {
                Ok(attached) => open.attached = attached,
                Err(error) => refused.push((*place, error)),
            }
        }
        for (place, error) in refused {
            debug!(?place, "{error}");
            if !is_about_ended_process(&error) && !std::mem::replace(&mut self.has_warned, true) {
                let subject = self.sites.subject();
                warn!("{subject} of some processes are not recorded: {error}");
            }
            self.files.remove(&place);
            self.retry = Some(Instant::now() + TRIED_AGAIN);
        }
        is_new
    }

    /// Detaches the probes everywhere.
    pub(in crate::session) fn detach(&mut self) {
        for place in self.files.values_mut() {
            place.attached.clear();
        }
    }
}

/// Whether a probe was refused because its process has ended.
fn is_about_ended_process(error: &Error) -> bool {
    matches!(error, Error::Probe { source } if source.raw_os_error() == Some(libc::ESRCH))
}
