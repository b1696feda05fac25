//! Series of profiles, with totals.

use std::{collections::BTreeMap, time::SystemTime};

use agent_common::record::ProfileKind;

use crate::{
    formats::PprofHeader,
    profile::{Amount, Kind},
};

/// Most series; windows of further ones are only counted.
const MAX_SERIES: usize = 10_000;

/// Most bytes of all their labels.
const MAX_LABEL_BYTES: usize = 64 << 20;

/// Profiles of the same kind with the same labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The service.
    pub service: String,
    /// What they measure.
    pub kind: &'static Kind,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Number of profiles.
    pub windows: u64,
    /// What all samples measured.
    pub total: Amount,
    /// Start of the first window.
    pub first: SystemTime,
    /// Start of the last window.
    pub last: SystemTime,
}

/// Series, collected from profiles.
#[derive(Default)]
pub(super) struct SeriesTable {
    series: BTreeMap<(String, BTreeMap<String, String>, ProfileKind), Series>,
    label_bytes: usize,
    others: u64,
}

impl SeriesTable {
    /// Adds a profile.
    pub(super) fn add(&mut self, service: String, head: PprofHeader) {
        let key = (service, head.labels, head.kind.number);
        let labels = key.1.iter();
        let label_bytes: usize = labels.map(|(name, value)| name.len() + value.len()).sum();
        if let Some(series) = self.series.get_mut(&key) {
            series.windows += 1;
            series.total += head.total;
            series.first = series.first.min(head.start);
            series.last = series.last.max(head.start);
        } else if self.series.len() < MAX_SERIES
            && self.label_bytes + label_bytes <= MAX_LABEL_BYTES
        {
            self.label_bytes += label_bytes;
            let series = Series {
                service: key.0.clone(),
                kind: head.kind,
                labels: key.1.clone(),
                windows: 1,
                total: head.total,
                first: head.start,
                last: head.start,
            };
            self.series.insert(key, series);
        } else {
            self.others += 1;
        }
    }

    /// The series by service, labels and kind, and the number of windows of series beyond the limit.
    pub(super) fn finish(self) -> (Vec<Series>, u64) {
        (self.series.into_values().collect(), self.others)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::profile::CPU;

    #[test]
    fn there_are_not_too_many_series() {
        let head = |pod: String| PprofHeader {
            labels: [("pod".to_owned(), pod)].into(),
            start: SystemTime::UNIX_EPOCH,
            duration: Duration::ZERO,
            kind: &CPU,
            total: Amount {
                count: 3,
                value: 30_000_000,
            },
        };
        let mut all = SeriesTable::default();
        for number in 0..MAX_SERIES + 5 {
            all.add("web".to_owned(), head(number.to_string()));
        }
        all.add("web".to_owned(), head("0".to_owned()));
        let (series, others) = all.finish();
        assert_eq!((series.len(), others), (MAX_SERIES, 5));
        assert_eq!((series[0].windows, series[0].total.count), (2, 6));

        let mut all = SeriesTable::default();
        let long = "x".repeat(MAX_LABEL_BYTES / 2);
        for number in 0..3 {
            all.add("web".to_owned(), head(format!("{number}{long}")));
        }
        let (series, others) = all.finish();
        assert_eq!((series.len(), others), (1, 2));
    }
}
