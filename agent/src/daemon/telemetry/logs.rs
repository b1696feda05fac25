//! Logs, on standard error: a line for each event, with its time unless systemd adds one.

use std::{env, io};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::{Log, LogFormat};

/// Why there are no logs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The level is none.
    #[error("`log_level` is `{level}`: use error, warn, info, debug or trace")]
    Level {
        /// What was given.
        level: String,
    },
    /// There are logs already.
    #[error("logs were started twice")]
    Started,
}

/// Starts to log.
///
/// # Errors
///
/// When the level makes no sense.
pub fn start(log: &Log) -> Result<(), Error> {
    let filter = EnvFilter::try_new(&log.level).map_err(|_| Error::Level {
        level: log.level.clone(),
    })?;
    // The journal has a time for each line.
    let has_times = env::var_os("JOURNAL_STREAM").is_none();
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match (log.format, has_times) {
        (LogFormat::Json, _) => Box::new(layer.json().flatten_event(true)),
        (LogFormat::Text, true) => Box::new(layer.with_ansi(false).with_target(false)),
        (LogFormat::Text, false) => {
            Box::new(layer.with_ansi(false).with_target(false).without_time())
        }
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()
        .map_err(|_| Error::Started)
}
