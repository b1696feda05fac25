//! Logs on standard error: one line per event, with its time, or its priority where the journal of systemd reads them, which
//! adds the time.

use std::{env, fmt, io, os::fd::AsFd};

use rustix::fs::fstat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::LevelFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, JsonFields, Writer},
    },
    layer::SubscriberExt as _,
    registry::LookupSpan,
    reload::{self, Handle},
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

/// What is logged, which may change while the agent runs.
#[derive(Debug)]
pub struct LogLevel(Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Logs what this level says from now on.
    ///
    /// # Errors
    ///
    /// When the level is not valid; what is logged is unchanged.
    pub fn set(&self, level: &str) -> Result<(), Error> {
        let filter = filter(level)?;
        let most = filter.max_level_hint();
        self.0.reload(filter).map_err(|_| Error::Started)?;
        // Of libraries that log by other means than this one's.
        log::set_max_level(most.map_or(log::LevelFilter::Trace, of_log));
        Ok(())
    }
}

/// Starts logging.
///
/// A bare level applies to the agent's own targets, those of libraries log at `warn`; the value may
/// also list directives, such as `info,h2=debug`.
///
/// # Errors
///
/// When the level is not valid or logging was started before.
pub fn start(log: &Log) -> Result<LogLevel, Error> {
    let (filter, level) = reload::Layer::new(filter(&log.level)?);
    let stream = env::var("JOURNAL_STREAM").unwrap_or_default();
    let layer = layer(log.format, is_stream(&stream, io::stderr()), io::stderr);
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()
        .map_err(|_| Error::Started)?;
    Ok(LogLevel(level))
}

/// Writes events to `output`.
fn layer<Output>(
    format: LogFormat,
    is_for_journal: bool,
    output: Output,
) -> Box<dyn Layer<Registry> + Send + Sync>
where
    Output: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(output)
        .with_ansi(false);
    let text = Format::default().with_target(false).with_ansi(false);
    let json = Format::default().json().flatten_event(true);
    match (format, is_for_journal) {
        (LogFormat::Text, false) => Box::new(layer.event_format(text)),
        (LogFormat::Text, true) => Box::new(layer.event_format(WithPriority(text.without_time()))),
        (LogFormat::Json, false) => {
            Box::new(layer.fmt_fields(JsonFields::new()).event_format(json))
        }
        (LogFormat::Json, true) => Box::new(
            layer
                .fmt_fields(JsonFields::new())
                .event_format(WithPriority(json)),
        ),
    }
}

/// Whether a file is the stream of `JOURNAL_STREAM`, which the journal reads: the variable may be that of a parent whose
/// standard error was another file (see `systemd.exec(5)`).
fn is_stream(stream: &str, file: impl AsFd) -> bool {
    let Some((device, inode)) = stream.split_once(':') else {
        return false;
    };
    let Ok(status) = fstat(file) else {
        return false;
    };
    device.parse() == Ok(status.st_dev) && inode.parse() == Ok(status.st_ino)
}

/// Lines with the priority by which `journalctl -p` selects them (see `sd-daemon(3)`).
struct WithPriority<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithPriority<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The priority of a level (see `syslog(3)`).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// The same level for the library `log`.
fn of_log(level: LevelFilter) -> log::LevelFilter {
    match level.into_level() {
        None => log::LevelFilter::Off,
        Some(Level::ERROR) => log::LevelFilter::Error,
        Some(Level::WARN) => log::LevelFilter::Warn,
        Some(Level::INFO) => log::LevelFilter::Info,
        Some(Level::DEBUG) => log::LevelFilter::Debug,
        Some(_) => log::LevelFilter::Trace,
    }
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
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing::{debug, error, info, subscriber::with_default, warn};
    use tracing_subscriber::{Layer as _, layer::SubscriberExt as _, reload};

    use super::{LogLevel, filter, is_stream, layer};
    use crate::config::LogFormat;

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged by a function, which gets the level.
    fn logged(format: LogFormat, is_for_journal: bool, log: impl FnOnce(&LogLevel)) -> String {
        let output = Output::default();
        let writer = output.clone();
        let layer = layer(format, is_for_journal, move || writer.clone());
        let (filter, level) = reload::Layer::new(filter("info").unwrap());
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
        with_default(subscriber, || log(&LogLevel(level)));
        String::from_utf8(output.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn the_journal_gets_priorities_and_no_times() {
        let log = |_: &LogLevel| {
            error!("lost");
            warn!(count = 3, "late");
            info!("begun");
        };
        let lines = logged(LogFormat::Text, true, log);
        assert_eq!(
            lines,
            "<3>ERROR lost\n<4> WARN late count=3\n<6> INFO begun\n"
        );
        let line = logged(LogFormat::Json, true, |_| warn!(count = 3, "late"));
        let value = line.strip_prefix("<4>").unwrap();
        let value: serde_json::Value = serde_json::from_str(value).unwrap();
        assert_eq!(
            (&value["message"], &value["count"]),
            (&"late".into(), &3.into())
        );
    }

    #[test]
    fn other_files_get_times_and_no_priorities() {
        let line = logged(LogFormat::Text, false, |_| warn!(count = 3, "late"));
        let (time, event) = line.split_once("  WARN ").unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert_eq!(event, "late count=3\n");
        let line = logged(LogFormat::Json, false, |_| warn!("late"));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&value["message"], &value["level"]),
            (&"late".into(), &"WARN".into())
        );
        assert!(value["timestamp"].is_string());
    }

    #[test]
    fn the_journal_reads_the_file_that_systemd_has_named() {
        let [file, other] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let status = rustix::fs::fstat(&file).unwrap();
        let stream = format!("{}:{}", status.st_dev, status.st_ino);
        assert!(is_stream(&stream, &file) && !is_stream(&stream, &other));
        for stream in ["", "1", "a:b", &format!("{stream}:")] {
            assert!(!is_stream(stream, &file), "{stream}");
        }
    }

    #[test]
    fn the_level_changes_while_the_agent_runs() {
        let lines = logged(LogFormat::Text, true, |level| {
            debug!("one");
            level.set("debug").unwrap();
            debug!("two");
            assert!(level.set("loud").is_err());
            debug!("three");
            level.set("error").unwrap();
            warn!("four");
        });
        assert_eq!(lines, "<7>DEBUG two\n<7>DEBUG three\n");
    }

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
