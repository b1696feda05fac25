//! The tables: contenders by programs, and what is explained.
//!
//! An empty cell was not measured; why one could not be is below the tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::alternation::Middle;
use super::contender::Contender;
use super::explained::{Explained, Growth};
use super::rise::{Measured, Rise};
use crate::commands::observe::stats::float;

/// A program's name with what was measured of it.
pub(super) type Column = (&'static str, Measured);

const NAME: usize = 23;
const CELL: usize = 16;

/// The programs: what they do, and how far figures of them can be trusted.
pub(super) fn programs(columns: &[Column]) -> String {
    let mut text = row("", columns.iter().map(|(name, _)| (*name).to_owned()));
    let mut add = |name: &str, cell: &dyn Fn(&Measured) -> Option<f64>, decimals: usize| {
        let cells = columns.iter().map(|(_, measured)| {
            cell(measured).map_or_else(String::new, |value| format!("{value:.decimals$}"))
        });
        text += &row(name, cells);
    };
    add("units of work/s", &|measured| Some(measured.units), 0);
    add("page faults/s", &|measured| Some(measured.faults), 0);
    add("noise, one process", &|measured| measured.noise[0], 2);
    add("noise, several", &|measured| measured.noise[1], 2);
    text
}

/// By how many percent the CPU time of the programs rises.
pub(super) fn rises(contenders: &[Contender], columns: &[Column]) -> String {
    table(contenders, columns, |rise| {
        let Middle { median, spread } = rise.cpu_time;
        let decimals = usize::from(median.abs() < 100.0);
        format!("{median:.decimals$} ± {spread:.decimals$}")
    })
}

/// CPU of the profilers that are attached, in percent of a processor.
pub(super) fn own_cpu(contenders: &[Contender], columns: &[Column]) -> String {
    let outside: Vec<_> = contenders
        .iter()
        .copied()
        .filter(|contender| matches!(contender, Contender::Agent(_) | Contender::PerfTrace))
        .collect();
    table(&outside, columns, |rise| {
        rise.own_cpu
            .map_or_else(String::new, |percent| format!("{percent:.1}"))
    })
}

/// What is explained of the growth, in percent, and what programs grow by with what is in them.
pub(super) fn explained(growths: &[Growth]) -> String {
    let Some(first) = growths.first() else {
        return String::new();
    };
    let mut text = row("", growths.iter().map(|growth| growth.way.to_owned()));
    let megabytes = |bytes: u64| format!("{:.0} MB", float(bytes) / 1e6);
    let cells = growths.iter().map(|growth| megabytes(growth.bytes));
    text += &row("grows by", cells);
    for (nth, (name, _)) in first.rows.iter().enumerate() {
        let cells = growths.iter().map(|growth| match &growth.rows[nth].1 {
            Ok(Explained { found, grown }) => {
                let percent = 100.0 * float(*found) / float(growth.bytes.max(1));
                if name.starts_with("agent") || name.starts_with("perf") {
                    format!("{percent:.1}")
                } else {
                    format!("{percent:.1} ({})", megabytes(*grown))
                }
            }
            Err(_) => "cannot run".to_owned(),
        });
        text += &row(name, cells);
    }
    text
}

/// Why something could not be measured, each reason once.
pub(super) fn reasons(columns: &[Column], growths: &[Growth]) -> BTreeSet<String> {
    let of_programs = columns.iter().flat_map(|(program, measured)| {
        measured
            .rows
            .iter()
            .map(move |(contender, found)| (*program, contender.name(), found.as_ref().err()))
    });
    let of_growths = growths.iter().flat_map(|growth| {
        growth
            .rows
            .iter()
            .map(|(name, found)| (growth.way, (*name).to_owned(), found.as_ref().err()))
    });
    of_programs
        .chain(of_growths)
        .filter_map(|(program, name, error)| Some(format!("{name}, {program}: {:#}", error?)))
        .collect()
}

fn table(contenders: &[Contender], columns: &[Column], cell: impl Fn(&Rise) -> String) -> String {
    let mut text = row("", columns.iter().map(|(name, _)| (*name).to_owned()));
    for contender in contenders {
        let cells = columns.iter().map(|(_, measured)| {
            let mut rows = measured.rows.iter();
            match rows.find(|(of, _)| of == contender) {
                Some((_, Ok(rise))) => cell(rise),
                Some((_, Err(_))) => "cannot run".to_owned(),
                None => String::new(),
            }
        });
        let cells: Vec<_> = cells.collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            text += &row(&contender.name(), cells.into_iter());
        }
    }
    text
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let mut text = format!("{name:<NAME$}");
    for cell in cells {
        // Writing to a string cannot fail.
        let _ = write!(text, "{cell:>CELL$}");
    }
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column() -> Column {
        let rise = Rise {
            cpu_time: Middle {
                median: 2.345,
                spread: 0.5,
            },
            own_cpu: Some(3.0),
        };
        let rows = vec![
            (Contender::PerfTrace, Ok(rise)),
            (Contender::Memray, Err(anyhow::anyhow!("no network"))),
        ];
        let measured = Measured {
            rows,
            units: 10.0,
            faults: 2.0,
            noise: [Some(0.25), None],
        };
        ("busy", measured)
    }

    #[test]
    fn each_contender_is_a_row() {
        let contenders = [
            Contender::PerfTrace,
            Contender::Memray,
            Contender::MemrayAttach,
        ];
        let columns = [column()];
        let rows = rises(&contenders, &columns);
        let rows: Vec<_> = rows.lines().map(str::split_whitespace).collect();
        let rows: Vec<String> = rows
            .into_iter()
            .map(|words| words.collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                "busy",
                "perf trace -F all 2.3 ± 0.5",
                "memray run cannot run"
            ]
        );
        assert_eq!(own_cpu(&contenders, &columns).lines().count(), 2);
        let reasons = reasons(&columns, &[]);
        assert_eq!(
            reasons.into_iter().collect::<Vec<_>>(),
            ["memray run, busy: no network"]
        );
        assert!(programs(&columns).contains("0.25"));
    }

    #[test]
    fn what_a_profiler_takes_in_the_program_is_beside_it() {
        let explained_by = |found, grown| Ok(Explained { found, grown });
        let growth = Growth {
            way: "objects",
            bytes: 100_000_000,
            rows: vec![
                ("agent growth", explained_by(99_000_000, 100_000_000)),
                ("tracemalloc", explained_by(90_000_000, 160_000_000)),
            ],
        };
        let text = explained(&[growth]);
        assert!(text.contains("99.0\n"), "{text}");
        assert!(text.contains("90.0 (160 MB)\n"), "{text}");
    }
}
