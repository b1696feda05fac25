//! Keep-alive notifications for systemd's watchdog.

use std::{env, process, time::Duration};

/// Interval where the watchdog is off.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// Longest interval.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The interval between notifications: half of the watchdog's timeout.
#[must_use]
pub fn period() -> Duration {
    timeout().map_or(IDLE, |limit| {
        (limit / 2).clamp(Duration::from_millis(1), LONGEST)
    })
}

/// Notifies systemd, if its watchdog is on.
pub fn feed() {
    if timeout().is_some() {
        // Nothing can be done if systemd does not listen.
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Watchdog]);
    }
}

/// The watchdog's timeout, if it is on for this process.
fn timeout() -> Option<Duration> {
    let is_own = |pid: String| pid.parse() == Ok(process::id());
    if !env::var("WATCHDOG_PID").map_or(true, is_own) {
        return None;
    }
    let micros = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    Some(Duration::from_micros(micros)).filter(|limit| !limit.is_zero())
}
