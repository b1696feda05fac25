//! Profiles that are requested over HTTP while the agent samples.

use std::time::{Duration, Instant};

use super::{http_server::ProfileRequest, target_table::TargetTable};
use crate::{
    aggregate::Window,
    formats::{self, Format, encode},
    session::{Began, Stages},
};

/// Most profiles that are made for requests at the same time.
const MAX_PULLS: usize = 16;

/// Profiles that are being made for requests.
#[derive(Default)]
pub(super) struct OnDemandProfiles(Vec<OnDemandProfile>);

struct OnDemandProfile {
    asked: ProfileRequest,
    window: u64,
    began: Began,
}

impl OnDemandProfile {
    fn ends(&self) -> Instant {
        self.began.at + self.asked.duration
    }
}

impl OnDemandProfiles {
    /// When the next one is complete.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().map(OnDemandProfile::ends).min()
    }

    /// Begins a profile; one too many is dropped, which is an answer too.
    pub(super) fn begin(&mut self, asked: ProfileRequest, stages: &mut Stages) {
        if self.0.len() < MAX_PULLS {
            self.0.push(OnDemandProfile {
                asked,
                window: stages.aggregator.open_window(),
                began: Began::now(),
            });
        }
    }

    /// Sends the profiles that are complete, and drops those whose client is gone.
    pub(super) fn answer(&mut self, stages: &mut Stages, targets: &TargetTable, period: Duration) {
        let now = Instant::now();
        let is_over = |pull: &OnDemandProfile| pull.ends() <= now || pull.asked.reply.is_closed();
        while let Some(index) = self.0.iter().position(is_over) {
            let OnDemandProfile {
                asked,
                window,
                began,
            } = self.0.swap_remove(index);
            let Some(window) = stages.aggregator.close_window(window) else {
                continue;
            };
            let window = matching(window, &asked, targets);
            let about = began.about(period).of_kind(asked.kind);
            let profile = stages.profile_of(&window, &about);
            let mut pprof = Vec::new();
            let options = formats::EncodeOptions::default();
            if encode(&profile, Format::Pprof, options, &mut pprof).is_ok() {
                // The client may be gone.
                let _ = asked.reply.send(pprof);
            }
        }
    }
}

/// The part of a window that was requested.
fn matching(window: Window, asked: &ProfileRequest, targets: &TargetTable) -> Window {
    let is_asked_for = |pid: u32| {
        let labels = targets.labels(pid)?;
        let has_label = |(name, value): &(String, String)| labels.get(name) == Some(value.as_str());
        let is_process = asked.pid.is_none_or(|asked| asked == pid);
        (is_process && asked.labels.iter().all(has_label)).then_some(())
    };
    let mut parts = window.split(is_asked_for);
    parts.remove(&((), asked.kind.number)).unwrap_or_default()
}
