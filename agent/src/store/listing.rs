//! The series of a folder, as a table.

use std::fmt;

use unicode_width::UnicodeWidthStr as _;

use super::{error::moment, series::Series, skipped::SkippedFiles};
use crate::{
    profile::SERVICE_NAME_LABEL,
    text::{plural, printable},
};

/// The series of a folder.
#[derive(Debug)]
pub struct Listing {
    /// The series, by service.
    pub series: Vec<Series>,
    /// Windows of series beyond the limit.
    pub others: u64,
    /// Files that are missing in it.
    pub skipped: SkippedFiles,
}

/// A table with a row for each series; labels common to all are printed below it.
impl fmt::Display for Listing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let common = self.common();
        let rows: Vec<_> = self.series.iter().map(|it| row(it, &common)).collect();
        let names = rows.iter().map(|row| row.service.width());
        let width = names.max().unwrap_or(0).max("service".len());
        // Where all is CPU time, there is no need to say what a value is.
        let is_cpu = self.series.iter().all(|series| series.kind.is_cpu());
        let kinds = self.series.iter().map(|series| series.kind.name.len());
        let kind_width = kinds.max().unwrap_or(0).max("event".len());
        let kind = |name: &str| {
            if is_cpu {
                String::new()
            } else {
                format!("{name:<kind_width$}  ")
            }
        };
        let value = if is_cpu { "CPU" } else { "value" };
        writeln!(
            formatter,
            "{:<width$}  {}{:>8}  {:>10}  {value:>12}  {:<20}  {:<20}  labels",
            "service",
            kind("event"),
            "windows",
            "samples",
            "first window",
            "last window"
        )?;
        for row in rows {
            // A formatter counts characters, not columns.
            let pad = width - row.service.width();
            let line = format!(
                "{}{:pad$}  {}{:>8}  {:>10}  {:>12}  {:<20}  {:<20}  {}",
                row.service,
                "",
                kind(row.kind),
                row.windows,
                row.samples,
                row.value,
                row.first,
                row.last,
                row.labels
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
    /// The labels common to all series; none if there is a single one.
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
                *name != SERVICE_NAME_LABEL && others.iter().all(has)
            })
            .map(|(name, value)| (&**name, &**value))
            .collect()
    }
}

/// A row of the table.
struct Row {
    service: String,
    kind: &'static str,
    windows: u64,
    samples: u64,
    value: String,
    first: String,
    last: String,
    labels: String,
}

fn row(series: &Series, common: &[(&str, &str)]) -> Row {
    let labels = series.labels.iter();
    let labels = labels.map(|(name, value)| (&**name, &**value));
    Row {
        service: printable(&series.service).into_owned(),
        kind: series.kind.name,
        windows: series.windows,
        samples: series.total.count,
        value: series.kind.unit.text(series.total.value),
        first: moment(series.first),
        last: moment(series.last),
        labels: shown(
            labels.filter(|label| label.0 != SERVICE_NAME_LABEL && !common.contains(label)),
        ),
    }
}

/// Formats labels, such as `namespace=shop pod=web-1`.
fn shown<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let labels = labels.map(|(name, value)| format!("{}={}", printable(name), printable(value)));
    labels.collect::<Vec<_>>().join(" ")
}
