//! Logs on standard error: one line per event, with its time unless the journal adds one.

use std::{env, io};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::LevelFilter, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::config::{Log, LogFormat};

/// Why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The level is not valid.
    #[error("`log_level` is `{level}`: use error, warn, info, debug or trace")]
    Level {
        /// The configured value.
        level: String,
    },
    /// A global subscriber is already set.
    #[error("logs were started twice")]
    Started,
}

/// Starts logging.
///
/// A bare level applies to the agent's own targets, those of libraries log at `warn`; the value may
/// also list directives, such as `info,h2=debug`.
///
/// # Errors
///
/// When the level is not valid or logging was started before.
pub fn start(log: &Log) -> Result<(), Error> {
    let filter = filter(&log.level)?;
    // The journal records the time of each line.
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

/// Whether logging could start.
///
/// # Errors
///
/// When the level is not valid.
pub fn check(log: &Log) -> Result<(), Error> {
    filter(&log.level).map(|_| ())
}

/// The directives of a configured level: a bare one is for the agent, not for its libraries.
fn filter(level: &str) -> Result<EnvFilter, Error> {
    let directives = match level.parse::<LevelFilter>() {
        Ok(level) => format!("{},agent={level}", level.min(LevelFilter::WARN)),
        Err(_) => level.to_owned(),
    };
    // A word alone would be the name of a target, at all levels.
    EnvFilter::try_new(&directives)
        .ok()
        .filter(|_| directives.contains('='))
        .ok_or_else(|| Error::Level {
            level: level.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn a_bare_level_is_for_the_agent_alone() {
        let directives = |level| filter(level).map(|filter| filter.to_string());
        assert_eq!(directives("debug").unwrap(), "agent=debug,warn");
        assert_eq!(directives("error").unwrap(), "agent=error,error");
        assert_eq!(directives("off").unwrap(), "agent=off,off");
        assert_eq!(directives("info,h2=debug").unwrap(), "h2=debug,info");
        assert!(directives("loud").is_err());
        assert!(directives("agent=loud").is_err());
    }
}
