//! The tables: a row for each profiler.

use std::fmt::{Display, Write as _};

use anyhow::Result;

use super::super::alternation::Middle;
use super::dump::{self, Snapshot};
use super::live::{self, Measured};

/// How long dumps take.
pub(super) fn dumps(measured: &[(Snapshot, Result<dump::Row>)]) -> String {
    let title = [
        "all stacks once",
        "start to end, ms",
        "own CPU, ms",
        "peak memory, MB",
    ];
    let rows = measured.iter().map(|(snapshot, row)| {
        let cells = |row: &dump::Row| [row.elapsed, row.cpu, row.memory].map(cell).to_vec();
        (snapshot.name(), row.as_ref().map(cells))
    });
    table(&title, rows)
}

/// What live views cost.
pub(super) fn views(measured: &Measured) -> String {
    let title = [
        "live view",
        "first rows, s",
        "own CPU, %",
        "slower, %",
        "memory, MB",
        "grows by, MB",
    ];
    let rows = measured.rows.iter().map(|(view, row)| {
        let cells = |row: &live::Row| {
            vec![
                cell(row.first_rows),
                cell(row.own_cpu),
                row.slower.map_or_else(String::new, cell),
                cell(row.memory),
                cell(row.growth),
            ]
        };
        (view.name().to_owned(), row.as_ref().map(cells))
    });
    let noise = measured.noise.unwrap_or(f64::NAN);
    let table = table(&title, rows);
    format!("{table}Noise of how much slower the program is: {noise:.1} %\n")
}

fn cell(middle: Middle) -> String {
    format!("{:.1} ± {:.1}", middle.median, middle.spread)
}

/// A table, and below it what could not be measured.
fn table<'a>(
    title: &[&str],
    rows: impl Iterator<Item = (String, Result<Vec<String>, &'a anyhow::Error>)>,
) -> String {
    let mut text = format!("\n{}", line(title[0], &title[1..]));
    let mut failed = String::new();
    for (name, row) in rows {
        match row {
            Ok(cells) => text += &line(&name, &cells),
            // Writing to a string cannot fail.
            Err(error) => drop(writeln!(failed, "{name}: {error:#}")),
        }
    }
    text + &failed
}

fn line(name: &str, cells: &[impl Display]) -> String {
    let mut line = format!("{name:<34}");
    for cell in cells {
        // Writing to a string cannot fail.
        let _ = write!(line, "{cell:>18}");
    }
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn what_failed_is_below_the_rows() {
        let middle = Middle {
            median: 41.0,
            spread: 2.0,
        };
        let row = dump::Row {
            elapsed: middle,
            cpu: middle,
            memory: middle,
        };
        let measured = [
            (Snapshot::PySpy(&["--native"]), Err(anyhow!("no network"))),
            (Snapshot::Agent(&[]), Ok(row)),
        ];
        let text = dumps(&measured);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert!(lines[0].starts_with("agent dump "), "{text}");
        assert!(lines[0].contains("41.0 ± 2.0"), "{text}");
        assert_eq!(lines[1], "py-spy dump --native: no network");
    }
}
