//! Another configuration while the agent of a host runs.

use tracing::{info, warn};

use super::{Built, Host};
use crate::{
    config::{self, Config},
    daemon::{cpu_limit::CpuLimit, reload::keep_started, target_table::Relabel},
    export::{Exporters, StartError},
    targets::kubernetes,
};

impl Host {
    /// Notes that a configuration cannot be read.
    pub(in crate::daemon) fn refuse(&mut self, error: &config::Error) {
        warn!("the configuration is unchanged: {error}");
        self.reloads.end(false);
    }

    /// Applies another configuration, as much of it as can be while the agent runs.
    pub(in crate::daemon) async fn reconfigure(&mut self, mut config: Config) {
        self.end_window().await;
        let waiting = keep_started(&self.config, self.periods.passes, &mut config);
        if !waiting.is_empty() {
            warn!(
                "changes of {} take effect when the agent is started again",
                waiting.join(", ")
            );
        }
        self.reloads.waiting = waiting;
        let mut is_applied = true;
        let mut fail = |message: String| {
            warn!("{message}");
            is_applied = false;
        };
        if let Err(error) = self.log_level.set(&config.log.level) {
            fail(format!("`log_level` is unchanged: {error}"));
        }
        if let Err(error) = self.replace_exporters(&mut config) {
            fail(format!("the exporters are unchanged: {error}"));
        }
        if config.kubernetes != self.config.kubernetes {
            match kubernetes::PodMetadata::start(&config.kubernetes) {
                Ok(pods) => self.pods = pods,
                Err(error) => {
                    fail(format!("`kubernetes` is unchanged: {error}"));
                    // The next reload tries it again.
                    config.kubernetes.clone_from(&self.config.kubernetes);
                }
            }
        }
        if config.rate != self.config.rate {
            let period = config.periods().clock;
            match self.session.bpf.set_period(period) {
                Ok(()) => self.periods.clock = period,
                Err(error) => {
                    fail(format!("the sampling rate is unchanged: {error}"));
                    config.rate = self.config.rate;
                }
            }
        }
        self.limit = CpuLimit::new(config.max_cpu, self.session.cpu_time());
        self.targets.reconfigure(&config);
        let examinations = self.session.examinations();
        examinations.set_metadata(self.targets.metadata_options());
        examinations.workers.limit_cpu(config.max_cpu);
        let changed = self.targets.relabel(Relabel::All);
        self.exclude(changed);
        self.ends = self.began.at + config.window;
        self.config = config;
        self.reloads.end(is_applied);
        if is_applied {
            info!("configuration reloaded");
        } else {
            warn!("configuration reloaded in part");
        }
    }

    /// Has the exporters replaced whose configuration has changed, once all profiles of the window that has just ended are
    /// built, which are for the present ones.
    ///
    /// # Errors
    ///
    /// When one cannot be as it is configured; `config` has the present ones then.
    fn replace_exporters(&mut self, config: &mut Config) -> Result<(), StartError> {
        let exporters = &config.exporters;
        if *exporters == self.config.exporters && !self.exporters.differ_from(exporters) {
            return Ok(());
        }
        if let Err(error) = Exporters::check(exporters) {
            config.exporters.clone_from(&self.config.exporters);
            return Err(error);
        }
        let next = Built::Exporters(exporters.clone(), config.shutdown_timeout);
        let built = self.built.0.clone();
        self.session
            .profiles
            .run(move |_| built.blocking_send(next).is_ok());
        Ok(())
    }
}
