//! Parsers of option values.

use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::{
    formats::{Format, FunctionNames, Internals},
    profile::{CPU, Kind, LineNumbers},
};

/// The longest time that one profile may cover.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Highest process id, `PID_MAX_LIMIT` of the kernel.
const MAX_PID: u32 = 1 << 22;

/// The names of the formats.
pub(super) fn format() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .map(|name| Format::from_name(&name).unwrap_or(Format::Pprof))
}

/// The names of the ways to name functions.
pub(super) fn function_names() -> impl TypedValueParser<Value = FunctionNames> {
    PossibleValuesParser::new(FunctionNames::ALL.map(FunctionNames::name))
        .map(|name| FunctionNames::from_name(&name).unwrap_or_default())
}

/// Of `--internals` and `--no-internals`, of which clap keeps the last one.
pub(super) fn internals(shown: bool, hidden: bool) -> Internals {
    match (shown, hidden) {
        (true, _) => Internals::Shown,
        (_, true) => Internals::Hidden,
        _ => Internals::ByFormat,
    }
}

/// Of `--function` and `--nolineno`, of which clap accepts one.
pub(super) fn line_numbers(function: bool, hidden: bool) -> LineNumbers {
    match (function, hidden) {
        (true, _) => LineNumbers::First,
        (_, true) => LineNumbers::Hidden,
        _ => LineNumbers::Current,
    }
}

/// The names of the events.
pub(super) fn event() -> impl TypedValueParser<Value = &'static Kind> {
    PossibleValuesParser::new(Kind::ALL.iter().map(|kind| kind.name))
        .map(|name| Kind::from_name(&name).unwrap_or(&CPU))
}

/// A duration such as `10s` or `1m30s`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, DurationError> {
    let is_bare = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let duration = if is_bare {
        humantime::parse_duration(&format!("{text}s"))
    } else {
        humantime::parse_duration(text)
    };
    let duration = duration.map_err(|_| DurationError::Malformed)?;
    if duration.is_zero() {
        return Err(DurationError::Zero);
    }
    if duration > MAX_DURATION {
        return Err(DurationError::TooLong);
    }
    Ok(duration)
}

/// Why a text is not a duration; clap prints the text itself in front.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum DurationError {
    #[error("write it as 30, 500ms, 10s or 1m30s")]
    Malformed,
    #[error("it must be greater than zero")]
    Zero,
    #[error("it must be at most 24h")]
    TooLong,
}

/// A process id.
pub(super) fn pid(text: &str) -> Result<u32, MalformedError> {
    let pid = text.parse().map_err(|_| MalformedError::Pid)?;
    if (1..=MAX_PID).contains(&pid) {
        Ok(pid)
    } else {
        Err(MalformedError::Pid)
    }
}

/// A time: absolute in UTC, or before now.
pub(super) fn time(text: &str) -> Result<SystemTime, MalformedError> {
    let now = SystemTime::now();
    let text = text.trim();
    let malformed = MalformedError::Time;
    if text == "now" {
        return Ok(now);
    }
    let ago = text.strip_suffix("ago").or_else(|| text.strip_prefix('-'));
    if let Ok(ago) = humantime::parse_duration(ago.unwrap_or(text).trim()) {
        return now.checked_sub(ago).ok_or(malformed);
    }
    let is_day = text.len() == "2026-11-21".len();
    let midnight = if is_day { "T00:00:00Z" } else { "" };
    humantime::parse_rfc3339_weak(&format!("{text}{midnight}")).map_err(|_| malformed)
}

/// A label as `NAME=VALUE`.
pub(super) fn label(text: &str) -> Result<(String, String), MalformedError> {
    let label = text.split_once('=').filter(|(name, _)| !name.is_empty());
    label
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or(MalformedError::Label)
}

/// Why a text is not a process id, a time or a label; clap prints the text itself in front.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum MalformedError {
    #[error("process ids are numbers from 1 to {MAX_PID}; --name chooses processes by their names")]
    Pid,
    #[error("write it as '2 hours ago', -2h, 2026-11-21 or 2026-11-21T15:20:00Z")]
    Time,
    #[error("write it as NAME=VALUE")]
    Label,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_what_people_write() {
        let millis = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("10"), Ok(10_000));
        assert_eq!(millis("0.5"), Ok(500));
        assert_eq!(millis("10s"), Ok(10_000));
        assert_eq!(millis("1m30s"), Ok(90_000));
        assert_eq!(millis("1.5h"), Ok(5_400_000));
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("24h"), Ok(86_400_000));
    }

    #[test]
    fn durations_have_bounds() {
        for zero in ["0", "0s", "0.0", "0ms"] {
            assert_eq!(duration(zero), Err(DurationError::Zero), "{zero}");
        }
        for long in ["24h1ns", "86401", "2days"] {
            assert_eq!(duration(long), Err(DurationError::TooLong), "{long}");
        }
        for text in ["", ".", "10x", "s", "-1", "1e3", "99999999999999999999"] {
            assert_eq!(duration(text), Err(DurationError::Malformed), "{text}");
        }
    }

    #[test]
    fn process_ids_are_numbers_with_bounds() {
        assert_eq!((pid("1"), pid("4194304")), (Ok(1), Ok(MAX_PID)));
        for text in ["0", "4194305", "99999999999", "-1", "python3", ""] {
            assert_eq!(pid(text), Err(MalformedError::Pid), "{text}");
        }
    }

    #[test]
    fn times_are_what_people_write() {
        let ago = |text| {
            let before = SystemTime::now();
            let moment = time(text).unwrap();
            before.duration_since(moment).unwrap_or_default().as_secs()
        };
        for text in ["-2h", "2h", "2 hours ago", "120min ago", "-1h60m"] {
            // The clock may be between two seconds.
            assert!((7_199..=7_200).contains(&ago(text)), "{text}");
        }
        assert_eq!(ago("now"), 0);
        let exact = |text| time(text).unwrap();
        assert_eq!(exact("2026-11-21T15:20:19Z"), exact("2026-11-21 15:20:19"));
        for text in ["", "yesterday", "-", "15:20", "2026-13-01", "20261121", "5"] {
            assert_eq!(time(text), Err(MalformedError::Time), "{text}");
        }
        assert!(time("999999999999 years ago").is_err());
    }
}
