//! The agent of a host: samples every process all the time, and hands a profile of each series to
//! the exporters when a window ends.
//!
//! Invariants: no failure after the start ends the agent; caches are bounded and evict what was not
//! used for long; a window that has begun is reported, also when the agent ends or gets another
//! configuration.

mod cpu_limit;
mod destinations;
mod file_limit;
mod host;
pub(crate) mod http_server;
pub(crate) mod metrics;
mod no_target;
mod on_demand;
pub(crate) mod reload;
pub(crate) mod target_table;
pub(crate) mod telemetry;
mod vitals;
pub(crate) mod window;

use std::process::ExitCode;

use anyhow::Result;
use rustix::process::Signal;
use tracing::warn;

pub use self::http_server::{QUARANTINE_PATH, QuarantineList, QuarantinedSubject};
use self::{destinations::Destinations, host::Host, http_server::Listener};
use crate::{
    bpf,
    config::{self, Config},
    export::Exporters,
    session::{Signals, memory::limit_arenas},
};

/// Whether an agent with this configuration could start, as far as that can be known without the kernel and without
/// making anything.
///
/// # Errors
///
/// What its start would say.
pub fn check(config: &Config) -> Result<()> {
    telemetry::check_logs(&config.log)?;
    Exporters::check(&config.exporters)?;
    Listener::check(&config.http_server)?;
    Ok(())
}

/// Samples every process until a signal ends it.
///
/// `read_config` reads the configuration again, for `SIGHUP`.
///
/// # Errors
///
/// One sentence that says what to do, for failures of the start only.
pub async fn run(
    config: Config,
    read_config: impl Fn() -> Result<Config, config::Error>,
) -> Result<ExitCode> {
    let log_level = telemetry::start_logs(&config.log)?;
    for warning in &config.warnings {
        warn!("{warning}");
    }
    limit_arenas();
    file_limit::raise();
    bpf::check_requirements()?;
    for lack in bpf::missing_rights(config.native) {
        warn!("{lack}");
    }
    bpf::lower_sys_admin(config.kinds.iter().any(|kind| kind.is_of_probe()));
    let mut signals = Signals::to_end_or_reload()?;
    let exporters = Destinations::start(config.exporters.clone())?;
    let mut listener = Listener::start(&config.http_server, config.kinds.clone()).await?;
    let mut host = Host::start(config, exporters, log_level, &mut signals).await?;
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    while host.run(&mut signals, &mut listener).await? == Signal::HUP {
        match read_config() {
            Ok(config) => host.reconfigure(config).await,
            Err(error) => host.refuse(&error),
        }
    }
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    host.end().await?;
    Ok(ExitCode::SUCCESS)
}
