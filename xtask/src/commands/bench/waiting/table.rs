//! The table of an interpreter: a row for each profiler.

use std::fmt::Write as _;

use super::super::alternation::Middle;
use super::contender::{Contender, Kind};
use super::stamps::FUNCTIONS;
use super::window::{Measured, Row};

/// The program, then profiles of elapsed time, then those of the GIL.
pub(super) fn text(measured: &Measured) -> String {
    let stamps = &measured.stamps;
    let mut text = "The program, in seconds per second:".to_owned();
    for (function, seconds) in FUNCTIONS.iter().zip(stamps.elapsed) {
        // Writing to a string cannot fail.
        let _ = write!(text, " {function} {seconds:.2}");
    }
    let noise = measured.noise.unwrap_or(f64::NAN);
    let _ = writeln!(
        text,
        "; with the GIL {:.2}\nNoise of how much slower it is: {noise:.1} %",
        stamps.with_gil
    );
    for (kind, of_found, of_wrong) in [
        (Kind::Wall, "found, % of stamped", "wrong function, %"),
        (Kind::Gil, "found, % of CPU", "without GIL, %"),
    ] {
        text += &rows(measured, kind, of_found, of_wrong);
    }
    let failed = measured.rows.iter().filter_map(|(contender, row)| {
        let error = row.as_ref().err()?;
        Some(format!("{}: {error:#}\n", contender.name()))
    });
    let failed: String = failed.collect();
    if !failed.is_empty() {
        let _ = write!(text, "\nWhat could not be measured\n\n{failed}");
    }
    text
}

fn rows(measured: &Measured, kind: Kind, of_found: &str, of_wrong: &str) -> String {
    let title = match kind {
        Kind::Wall => "elapsed time",
        Kind::Gil => "who holds the GIL",
    };
    let mut text = format!(
        "\n{title:<44}{:>16}{:>16}{of_found:>21}{of_wrong:>19}\n",
        "slower, %", "own CPU, %"
    );
    for (contender, row) in &measured.rows {
        if contender.kind() == kind {
            text += &line(*contender, row.as_ref().ok());
        }
    }
    text
}

fn line(contender: Contender, row: Option<&Row>) -> String {
    let cell = |middle: Middle| format!("{:.1} ± {:.1}", middle.median, middle.spread);
    let cells = row.map_or_else(
        || [const { String::new() }; 4],
        |row| [row.slower, row.own_cpu, row.found, row.wrong].map(cell),
    );
    let [slower, own_cpu, found, wrong] = cells;
    let name = contender.name();
    let line = format!("{name:<44}{slower:>16}{own_cpu:>16}{found:>21}{wrong:>19}");
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::super::stamps::Stamps;
    use super::*;

    #[test]
    fn each_profiler_is_in_the_table_of_its_kind() {
        let middle = |median| Middle {
            median,
            spread: 0.5,
        };
        let row = Row {
            slower: middle(1.0),
            own_cpu: middle(2.0),
            found: middle(99.0),
            wrong: middle(0.25),
        };
        let measured = Measured {
            stamps: Stamps {
                elapsed: [0.5; FUNCTIONS.len()],
                with_gil: 0.4,
                units: 10.0,
            },
            noise: Some(0.7),
            rows: vec![
                (Contender::Agent("gil-held"), Ok(row)),
                (Contender::Austin, Err(anyhow!("no network"))),
            ],
        };
        let text = text(&measured);
        let lines: Vec<_> = text.lines().collect();
        let gil = lines.iter().position(|line| line.contains("who holds"));
        let agent = lines.iter().position(|line| line.starts_with("agent"));
        assert_eq!(agent, gil.map(|line| line + 1), "{text}");
        assert!(text.contains("99.0 ± 0.5"), "{text}");
        assert!(text.contains("austin: no network"), "{text}");
    }
}
