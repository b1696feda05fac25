//! A capture that is only looked at: one process for a moment, and nothing is written or shown.

use std::time::Duration;

use anyhow::Result;

use super::{capture::Capture, end::End, random_seed, signals::Signals, time::Began};
use crate::{
    aggregate::Filter,
    discover::Discovery,
    kernel::{self, Kernel, Settings},
    profile::Profile,
};

/// Samples per second, in hertz, as of a capture of which nothing else was said.
const RATE: u32 = 99;

/// Samples a process for so long, unless it ends before or a signal ends the capture.
///
/// # Errors
///
/// One sentence that says what to do.
pub async fn sample(pid: u32, duration: Duration) -> Result<Profile> {
    kernel::check_requirements()?;
    let mut discovery = Discovery::default();
    let (finding, _) = discovery.add(pid)?;
    let signals = Signals::to_end()?;
    let period = Duration::from_secs(1) / RATE;
    let mut kernel = Kernel::load(&Settings {
        period,
        hash_seed: random_seed(),
        with_native: true,
        whole_host: false,
    })?;
    let mut capture = Capture::new(discovery, false, true);
    kernel.add_process(pid, None, false)?;
    capture.apply(&mut kernel, finding)?;
    capture.prepare(&mut kernel).await?;

    let mut end = End::new(pid, Some(duration), signals)?;
    let began = Began::now();
    kernel.start()?;
    capture
        .follow(&mut kernel, &mut end, None, began.at, None)
        .await?;
    kernel.stop()?;
    let about = began.about(period);
    capture.drain(&mut kernel)?;
    capture.profile(&about, &Filter::default(), &kernel.counters()?)
}
