//! Tells systemd that the agent is alive, if it wants to know.

use std::{env, process, time::Duration};

/// How often nothing is told when nobody wants to know.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// Longest time that is waited for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How often it is to be told: twice in the time after which systemd takes the agent for dead.
#[must_use]
pub fn period() -> Duration {
    wanted().map_or(IDLE, |limit| {
        (limit / 2).clamp(Duration::from_millis(1), LONGEST)
    })
}

/// Tells it.
pub fn feed() {
    if wanted().is_some() {
        // If nobody hears it there is nobody to tell.
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Watchdog]);
    }
}

/// The time after which systemd takes the agent for dead.
fn wanted() -> Option<Duration> {
    let is_own = |pid: String| pid.parse() == Ok(process::id());
    if !env::var("WATCHDOG_PID").map_or(true, is_own) {
        return None;
    }
    let micros = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    Some(Duration::from_micros(micros)).filter(|limit| !limit.is_zero())
}
