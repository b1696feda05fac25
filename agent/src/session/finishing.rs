//! The end of a session: its profiles.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::{sync::oneshot, time::timeout_at};

use super::{
    Session,
    clock::Began,
    coverage::completed,
    end::{End, EndReason},
};
use crate::{
    aggregate::Filter,
    profile::{Periods, Profile},
    targets::launch::Program,
};

/// Most time for building a profile after a signal has ended the capture. Look-ups end long before, by
/// [`Haste`](crate::symbolize::Haste); what is left takes longer only where other processes use the CPUs, and is no reason to
/// lose the profile.
const FINISH_LIMIT: Duration = Duration::from_secs(5);

impl Session {
    /// Stops sampling and returns the profiles of the whole session, one of each kind.
    ///
    /// When a signal has ended the session, or `end` gets one meanwhile, what takes longer than a
    /// moment is left out.
    ///
    /// # Errors
    ///
    /// When the BPF programs or their maps fail, or the filter's thread was never seen.
    pub async fn finish(
        &mut self,
        began: &Began,
        periods: Periods,
        filter: &Filter,
        reason: EndReason,
        end: &mut End,
        program: Option<&Program>,
    ) -> Result<Vec<Profile>> {
        self.stop_recording()?;
        let about = began.about(periods);
        if let Some(raises) = &mut self.raises {
            raises.stop();
        }
        if let Some(pages) = &mut self.pages {
            self.drain.read().await?;
            pages.stop();
        }
        let kinds = self.kinds.clone();
        let mut window = self.take_window(&mut ()).await?;
        window.set_start(began.monotonic_ns);
        window.set_unwatched(self.pages.as_ref().map_or(0, |pages| pages.lost()));
        let counters = self.counters()?;
        let filter = filter.clone();
        let coverage = self.take_coverage();
        let building = self.profiles.run(move |profiles| {
            let profiles = kinds.iter().map(|kind| {
                let about = about.of_kind(kind);
                let profile = profiles.profile(&window, &about, &filter, &counters);
                profile.map(|profile| completed(profile, &coverage))
            });
            profiles.collect::<Result<Vec<_>, _>>()
        });
        let built = self.build_in_time(building, reason, end, program).await?;
        Ok(built?)
    }

    /// Waits for profiles that are built; with haste when a signal has ended the session, or `end` gets one meanwhile.
    pub(super) async fn build_in_time<T>(
        &self,
        mut building: oneshot::Receiver<T>,
        reason: EndReason,
        end: &mut End,
        program: Option<&Program>,
    ) -> Result<T> {
        let built = tokio::select! {
            built = &mut building => built,
            () = end.interrupted(reason, program) => {
                self.haste.begin();
                let limit = Instant::now() + FINISH_LIMIT;
                timeout_at(limit.into(), building)
                    .await
                    .context("the profile could not be built in time")?
            }
        };
        built.context("the thread that builds profiles has ended")
    }

    /// Has nothing recorded any more, of any kind.
    fn stop_recording(&mut self) -> Result<()> {
        if let Some(passes) = &mut self.passes {
            passes.stop();
        }
        if let Some(raises) = &self.raises {
            raises.end();
        }
        if let Some(allocations) = &self.allocations {
            allocations.end()?;
        }
        Ok(self.bpf.stop()?)
    }
}
