//! Profiles that are requested over HTTP while the agent samples.

use std::time::Instant;

use tracing::warn;

use super::{
    http_server::{NoSuchTarget, ProfileRequest},
    no_target,
    target_table::TargetTable,
};
use crate::{
    aggregate::{Filter, ProfileTiming, Window},
    formats::{EncodeOptions, Format, encode},
    profile::Periods,
    session::{Began, Session},
    text::with_causes,
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

    /// Whether none is being made.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Since when the oldest one is being made.
    pub(super) fn open_since(&self) -> Option<Instant> {
        self.0.iter().map(|profile| profile.began.at).min()
    }

    /// Begins a profile, if there is a process that is asked for; one too many is dropped, which is an answer too.
    pub(super) async fn begin(
        &mut self,
        asked: ProfileRequest,
        session: &Session,
        targets: &TargetTable,
    ) {
        if let Some(why) = no_target::why_none(targets, asked.pid, &asked.labels) {
            // The client may be gone.
            let _ = asked.reply.send(Err(NoSuchTarget(why)));
            return;
        }
        if self.0.len() >= MAX_PULLS {
            return;
        }
        match session.open_window().await {
            Ok(window) => self.0.push(OnDemandProfile {
                asked,
                window,
                began: Began::now(),
            }),
            Err(error) => warn!("{}", with_causes(&error)),
        }
    }

    /// Sends the profiles that are complete, and drops those whose client is gone.
    pub(super) async fn answer(
        &mut self,
        session: &mut Session,
        targets: &mut TargetTable,
        periods: Periods,
        filter: &Filter,
    ) {
        let now = Instant::now();
        let is_over = |pull: &OnDemandProfile| pull.ends() <= now || pull.asked.reply.is_closed();
        while let Some(index) = self.0.iter().position(is_over) {
            let OnDemandProfile {
                asked,
                window,
                began,
            } = self.0.swap_remove(index);
            match session.close_window(window, targets).await {
                Ok(Some(window)) => {
                    let about = began.about(periods).of_kind(asked.kind);
                    let window = matching(window, &asked, targets);
                    send(window, asked, about, filter.clone(), session);
                }
                Ok(None) => {}
                Err(error) => warn!("{}", with_causes(&error)),
            }
        }
    }
}

/// Builds and sends a profile, on another thread.
fn send(
    window: Window,
    asked: ProfileRequest,
    about: ProfileTiming,
    filter: Filter,
    session: &Session,
) {
    session.profiles.run(move |profiles| {
        let profile = profiles.profile_of(&window, &about, &filter);
        let mut pprof = Vec::new();
        let options = EncodeOptions {
            function_names: asked.function_names,
            ..EncodeOptions::default()
        };
        if encode(&profile, Format::Pprof, options, &mut pprof).is_ok() {
            // The client may be gone.
            let _ = asked.reply.send(Ok(pprof));
        }
    });
}

/// The part of a window that was requested.
fn matching(window: Window, asked: &ProfileRequest, targets: &TargetTable) -> Window {
    let is_asked_for = |pid: u32| {
        let labels = targets.labels(pid)?;
        let is_process = asked.pid.is_none_or(|asked| asked == pid);
        (is_process && no_target::have_all(&labels, &asked.labels)).then_some(())
    };
    let mut parts = window.split(is_asked_for);
    parts
        .remove(&((), asked.kind.recorded_as()))
        .unwrap_or_default()
}
