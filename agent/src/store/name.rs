//! Names of profiles: they sort by time and are valid file names, whatever the name of the service.

use std::time::{Duration, SystemTime};

use crate::profile::Kind;

/// Suffix of the file of a profile.
pub(crate) const SUFFIX: &str = ".pb.gz";

/// Prefix of the name of a file that is not complete yet.
const PARTIAL_PREFIX: &str = ".";

/// Suffix of the name of a file that is not complete yet.
const PARTIAL_SUFFIX: &str = ".partial";

/// Longest service in a name.
const MAX_SERVICE_BYTES: usize = 100;

/// Length of the time in a name.
const TIME_BYTES: usize = "20261121T152019.123Z".len();

/// Latest time whose year has four digits, since the epoch.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

/// Precedes the kind of a profile in its name; no service has it in a name.
const KIND_SEPARATOR: char = '+';

/// Name of the profile of a window, such as `20261121T152019.123Z_web`; of a profile that is not of
/// CPU time with its kind, such as `20261121T152019.123Z_web+page-faults`.
pub(crate) fn of_window(start: SystemTime, service_name: &str, kind: &Kind) -> String {
    let name = format!("{}_{}", time(start), service(service_name));
    if kind.is_cpu() {
        name
    } else {
        format!("{name}{KIND_SEPARATOR}{}", kind.name)
    }
}

/// Name of the file of a profile until it is complete.
pub(crate) fn partial(stem: &str) -> String {
    format!("{PARTIAL_PREFIX}{stem}{SUFFIX}{PARTIAL_SUFFIX}")
}

/// The name that a file has when it is complete; [`None`] if the name is malformed.
pub(crate) fn completed(name: &str) -> Option<&str> {
    match name.strip_prefix(PARTIAL_PREFIX) {
        Some(rest) => rest.strip_suffix(PARTIAL_SUFFIX),
        None => Some(name),
    }
}

/// Sort key of a name, complete or not.
pub(crate) fn sort_key(name: &str) -> &str {
    name.strip_prefix(PARTIAL_PREFIX).unwrap_or(name)
}

/// The time in a name, which sorts by time.
pub(crate) fn time(moment: SystemTime) -> String {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH);
    let moment = SystemTime::UNIX_EPOCH + since.unwrap_or_default().min(LATEST);
    let text = humantime::format_rfc3339_millis(moment).to_string();
    text.replace(['-', ':'], "")
}

/// Parses the time in a name; [`None`] if it is not the name of a profile.
pub(crate) fn moment(name: &str) -> Option<SystemTime> {
    let (time, rest) = name.split_at_checked(TIME_BYTES)?;
    let part = |range| time.get(range);
    let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
    let (hour, minute, rest_of_time) = (part(9..11)?, part(11..13)?, part(13..TIME_BYTES)?);
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{rest_of_time}");
    let moment = humantime::parse_rfc3339(&text).ok()?;
    (rest.starts_with('_') && self::time(moment) == time).then_some(moment)
}

/// The service in a name, as [`service`] returns it; profiles of the same service, time and kind have
/// a number appended.
pub(crate) fn service_in(name: &str) -> Option<&str> {
    let service = name.get(TIME_BYTES..)?.strip_prefix('_')?;
    Some(service.split(KIND_SEPARATOR).next().unwrap_or(service))
}

/// The service without a number that may have been appended.
pub(crate) fn without_number(service: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    match service.rsplit_once('_') {
        Some((service, number)) if is_number(number) => service,
        _ => service,
    }
}

/// The service with `_` for all characters with a meaning in a file system or a shell.
pub(crate) fn service(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    name.chars()
        .map(|c| if is_safe(c) { c } else { '_' })
        .take(MAX_SERVICE_BYTES)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time() {
        let at = |seconds: u64| time(SystemTime::UNIX_EPOCH + Duration::from_millis(seconds));
        assert_eq!(at(1_795_274_419_123), "20261121T152019.123Z");
        let names = [0, 1, 999, 1_000, 59_999, 60_000, 4_000_000_000_000].map(at);
        assert!(names.is_sorted());
        let earlier = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
        let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(time(earlier), at(0));
        assert_eq!(time(latest), "99991231T235959.000Z");
    }

    #[test]
    fn times_are_parsed() {
        let millis = |millis| Some(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(
            moment("20261121T152019.123Z_web"),
            millis(1_795_274_419_123)
        );
        assert_eq!(moment("19700101T000000.000Z_"), millis(0));
        for name in [
            "20261121T152019.123Z",
            "20261121T152019.123Z-web",
            "2026112T1152019.123Z_web",
            "20261121.152019.123Z_web",
            "20261321T152019.123Z_web",
            "2026+121T152019.123Z_web",
            "20261121T152019.123Ä_web",
            "x",
            "",
        ] {
            assert_eq!(moment(name), None, "{name}");
        }
    }

    #[test]
    fn services_are_parsed() {
        assert_eq!(service_in("20261121T152019.123Z_web_2"), Some("web_2"));
        assert_eq!(service_in("20261121T152019.123Z"), None);
        let other = "20261121T152019.123Z_web+page-faults_2";
        assert_eq!(service_in(other), Some("web"));
        assert_eq!(without_number("web_2"), "web");
        assert_eq!(without_number("my_web"), "my_web");
        assert_eq!(without_number("web_"), "web_");
    }

    #[test]
    fn a_service_cannot_leave_its_folder() {
        assert_eq!(service("../../etc/passwd\0\n"), ".._.._etc_passwd__");
        assert_eq!(service("größe web-1.2"), "gr__e_web-1.2");
        assert_eq!(service(&"x".repeat(500)).len(), 100);
    }
}
