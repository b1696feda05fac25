//! What there is of each series.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use unicode_width::UnicodeWidthStr as _;

use super::{Listing, error::moment};
use crate::{export::SERVICE_NAME, formats::PprofHeader, text::plural, text::printable};

/// Series that are told apart.
const MAX_SERIES: usize = 10_000;

/// Most bytes of all their labels.
const MAX_LABEL_BYTES: usize = 64 << 20;

/// Profiles with the same labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The service.
    pub service: String,
    /// All labels, that of the service too, if it is one.
    pub labels: BTreeMap<String, String>,
    /// How many profiles there are.
    pub windows: u64,
    /// Sampling periods in all samples.
    pub samples: u64,
    /// CPU time that they stand for.
    pub cpu: Duration,
    /// When the first window began.
    pub first: SystemTime,
    /// When the last one began.
    pub last: SystemTime,
}

/// All series in the making.
#[derive(Default)]
pub(super) struct AllSeries {
    series: BTreeMap<(String, BTreeMap<String, String>), Series>,
    label_bytes: usize,
    others: u64,
}

impl AllSeries {
    /// Adds a profile.
    pub(super) fn add(&mut self, service: String, head: PprofHeader) {
        let cpu = Duration::from_nanos(head.cpu_ns());
        let key = (service, head.labels);
        let labels = key.1.iter();
        let label_bytes: usize = labels.map(|(name, value)| name.len() + value.len()).sum();
        if let Some(series) = self.series.get_mut(&key) {
            series.windows += 1;
            series.samples = series.samples.saturating_add(head.samples);
            series.cpu = series.cpu.saturating_add(cpu);
            series.first = series.first.min(head.start);
            series.last = series.last.max(head.start);
        } else if self.series.len() < MAX_SERIES
            && self.label_bytes + label_bytes <= MAX_LABEL_BYTES
        {
            self.label_bytes += label_bytes;
            let series = Series {
                service: key.0.clone(),
                labels: key.1.clone(),
                windows: 1,
                samples: head.samples,
                cpu,
                first: head.start,
                last: head.start,
            };
            self.series.insert(key, series);
        } else {
            self.others += 1;
        }
    }

    /// The series, by service and labels, and how many windows are of others.
    pub(super) fn finish(self) -> (Vec<Series>, u64) {
        (self.series.into_values().collect(), self.others)
    }
}

/// A table with a row for each series; labels that all have in common stand below it.
impl fmt::Display for Listing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let common = self.common();
        let rows: Vec<_> = self.series.iter().map(|it| row(it, &common)).collect();
        let names = rows.iter().map(|row| row.service.width());
        let width = names.max().unwrap_or(0).max("service".len());
        writeln!(
            formatter,
            "{:<width$}  {:>8}  {:>10}  {:>12}  {:<20}  {:<20}  labels",
            "service", "windows", "samples", "CPU", "first window", "last window"
        )?;
        for row in rows {
            // Of what is wide on the screen a formatter knows nothing.
            let pad = width - row.service.width();
            let line = format!(
                "{}{:pad$}  {:>8}  {:>10}  {:>10.2} s  {:<20}  {:<20}  {}",
                row.service, "", row.windows, row.samples, row.cpu, row.first, row.last, row.labels
            );
            writeln!(formatter, "{}", line.trim_end())?;
        }
        if self.others != 0 {
            let windows = plural(self.others, "window", "windows");
            writeln!(formatter, "… and {} {windows} of other series", self.others)?;
        }
        if !common.is_empty() && self.series.len() > 1 {
            writeln!(formatter, "\nAll have {}", shown(common.iter().copied()))?;
        }
        Ok(())
    }
}

impl Listing {
    /// The labels that all series have; of a single one there are none to leave out.
    fn common(&self) -> Vec<(&str, &str)> {
        let Some((first, others)) = self.series.split_first() else {
            return Vec::new();
        };
        if others.is_empty() {
            return Vec::new();
        }
        let labels = first.labels.iter();
        labels
            .filter(|(name, value)| {
                let has = |series: &Series| series.labels.get(*name) == Some(value);
                *name != SERVICE_NAME && others.iter().all(has)
            })
            .map(|(name, value)| (&**name, &**value))
            .collect()
    }
}

/// A row of the table.
struct Row {
    service: String,
    windows: u64,
    samples: u64,
    cpu: f64,
    first: String,
    last: String,
    labels: String,
}

fn row(series: &Series, common: &[(&str, &str)]) -> Row {
    let labels = series.labels.iter();
    let labels = labels.map(|(name, value)| (&**name, &**value));
    Row {
        service: printable(&series.service).into_owned(),
        windows: series.windows,
        samples: series.samples,
        cpu: series.cpu.as_secs_f64(),
        first: moment(series.first),
        last: moment(series.last),
        labels: shown(labels.filter(|label| label.0 != SERVICE_NAME && !common.contains(label))),
    }
}

/// For example `namespace=shop pod=web-1`.
fn shown<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let labels = labels.map(|(name, value)| format!("{}={}", printable(name), printable(value)));
    labels.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_not_too_many_series() {
        let head = |pod: String| PprofHeader {
            labels: [("pod".to_owned(), pod)].into(),
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            period: Duration::from_millis(10),
            samples: 3,
        };
        let mut all = AllSeries::default();
        for number in 0..MAX_SERIES + 5 {
            all.add("web".to_owned(), head(number.to_string()));
        }
        all.add("web".to_owned(), head("0".to_owned()));
        let (series, others) = all.finish();
        assert_eq!((series.len(), others), (MAX_SERIES, 5));
        assert_eq!((series[0].windows, series[0].samples), (2, 6));

        let mut all = AllSeries::default();
        let long = "x".repeat(MAX_LABEL_BYTES / 2);
        for number in 0..3 {
            all.add("web".to_owned(), head(format!("{number}{long}")));
        }
        let (series, others) = all.finish();
        assert_eq!((series.len(), others), (1, 2));
    }
}
