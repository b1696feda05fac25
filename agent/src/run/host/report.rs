//! A window → a profile of each series, for the exporters; and what was lost on the way.

use std::{collections::BTreeMap, sync::Arc};

use tracing::warn;

use super::Host;
use crate::{
    aggregate::{About, Filter, Window},
    encode::{self, Format, encode},
    export::Report,
    labels::Labels,
    profile::{Losses, Profile, Reached},
    run::names::Names,
};

/// Executables whose cut stacks are counted each by itself.
const MAX_EXECUTABLES: usize = 100;

/// What became of all windows so far.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Windows that ended.
    pub(super) windows: u64,
    /// Profiles that were handed over.
    pub(super) profiles: u64,
    /// Their size as pprof, in bytes.
    pub(super) pprof_bytes: u64,
    /// Samples in them.
    pub(super) samples: u64,
    /// How often clocks were started anew because processors came or went.
    pub(super) processor_changes: u64,
    /// Windows at whose end too much memory was used.
    pub(super) memory_limit_reached: u64,
    /// Samples that found no room in a window.
    pub(super) lost_samples: u64,
    /// What the profiles lack.
    pub(super) losses: Vec<(&'static str, u64)>,
    /// Native stacks that lead to their entry.
    pub(super) whole_stacks: u64,
    /// Native stacks that are cut, by the executable in which.
    pub(super) cut_stacks: BTreeMap<String, u64>,
}

impl Totals {
    fn add(&mut self, profile: &Profile) {
        self.profiles += 1;
        self.samples += profile.total();
        self.add_losses(&profile.losses);
        for unwinding in &profile.unwinding {
            self.whole_stacks += unwinding.whole;
            for (reached, count) in &unwinding.ends {
                let executable = match reached {
                    Reached::Nothing => "none".into(),
                    Reached::EvaluationLoop => "python".into(),
                    Reached::Executable(id) => profile.executable(*id).path.to_string_lossy(),
                };
                let is_known = self.cut_stacks.contains_key(&*executable);
                let name = if is_known || self.cut_stacks.len() < MAX_EXECUTABLES {
                    executable.into_owned()
                } else {
                    "other".to_owned()
                };
                *self.cut_stacks.entry(name).or_default() += count;
            }
        }
    }

    fn add_losses(&mut self, losses: &Losses) {
        let all = [
            ("truncated", losses.truncated),
            ("incomplete", losses.incomplete),
            ("not_python", losses.not_python),
            ("native_stack_lost", losses.lost_native_stacks),
            ("native_stack_cut", losses.unwind.total()),
            ("unmatched", losses.unmatched),
        ];
        self.losses.resize(all.len(), ("", 0));
        for (total, (reason, count)) in self.losses.iter_mut().zip(all) {
            *total = (reason, total.1 + count);
        }
    }
}

impl Host {
    /// Hands a profile of each series over.
    pub(super) fn report(&mut self) {
        let window = self.capture.aggregator.take_window();
        self.totals.windows += 1;
        self.totals.lost_samples += window.lost_samples();
        let about = self.began.about(self.period);
        for (labels, part) in self.series(window) {
            let mut profile = self.profile(&part, &about);
            profile.labels = (*labels).clone().into_map();
            self.totals.add(&profile);
            self.push(profile);
            // Words may take long to find the first time.
            self.drain();
        }
    }

    /// The parts of a window, by their labels.
    fn series(&self, window: Window) -> BTreeMap<Arc<Labels>, Window> {
        match &self.capture.population {
            Some(population) => window.split(|pid| population.labels(pid)),
            None => BTreeMap::new(),
        }
    }

    /// The profile of a window or a part of one.
    pub(super) fn profile(&mut self, window: &Window, about: &About) -> Profile {
        let capture = &mut self.capture;
        let code = capture.code.as_ref();
        let code = code.map(|code| (&mut self.names, code.code()));
        let mut names = Names::new(&mut capture.symbolizer, code);
        let aggregator = &capture.aggregator;
        aggregator.profile_of(window, about, &Filter::default(), &mut names)
    }

    fn push(&mut self, profile: Profile) {
        let options = encode::Options {
            threads: false,
            without_labels: !self.config.threads,
        };
        let mut pprof = Vec::new();
        if let Err(error) = encode(&profile, Format::Pprof, &options, &mut pprof) {
            // Memory does not refuse to be written to.
            warn!("{error}");
            return;
        }
        self.totals.pprof_bytes += pprof.len() as u64;
        self.exporters.push(&Report {
            labels: Arc::new(profile.labels.clone()),
            pprof: pprof.into(),
            profile: Arc::new(profile),
        });
    }
}
