//! Telemetry of the agent itself: logs, metrics, the watchdog of systemd.

mod logs;
mod metrics;
mod usage;
mod watchdog;

pub use logs::{LogLevel, check as check_logs, start as start_logs};
pub use metrics::{Metrics, classic};
pub use usage::Usage;
pub use watchdog::{feed as feed_watchdog, period as watchdog_period};
