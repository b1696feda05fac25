//! The figures as a table.

use std::fmt::{self, Write as _};

use super::figure::{Figure, Topic};

/// The figures of one interpreter.
#[derive(Debug)]
pub(super) struct Table<'a>(pub(super) &'a [Figure]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(
            formatter,
            "",
            ["agent", "best", "budget", "py-spy", "noise"],
            "",
        )?;
        for topic in Topic::ALL {
            let mut figures = self
                .0
                .iter()
                .filter(|figure| figure.topic == topic && figure.is_known())
                .peekable();
            if figures.peek().is_some() {
                writeln!(formatter, "{}", topic.title())?;
            }
            for figure in figures {
                let mut budget = value(topic, figure.budget);
                if figure.budget.is_some_and(|budget| budget != 0.0) {
                    budget.insert_str(0, "≤ ");
                }
                let mut noise = value(topic, figure.noise);
                if figure.noise.is_some() {
                    noise.insert_str(0, "± ");
                }
                let cells = [
                    &value(topic, figure.agent),
                    &value(topic, figure.best),
                    &budget,
                    &value(topic, figure.py_spy),
                    &noise,
                ];
                let verdict = figure.verdict().map_or("", |verdict| verdict.name());
                line(
                    formatter,
                    &format!("  {}", figure.case),
                    cells.map(String::as_str),
                    verdict,
                )?;
            }
        }
        Ok(())
    }
}

fn line(out: &mut fmt::Formatter<'_>, case: &str, cells: [&str; 5], verdict: &str) -> fmt::Result {
    let [agent, best, budget, py_spy, noise] = cells;
    let text = format!(
        "{case:<34}{agent:>12}{best:>12}{budget:>13}  {verdict:<13}{py_spy:>11}{noise:>11}"
    );
    writeln!(out, "{}", text.trim_end())
}

fn value(topic: Topic, value: Option<f64>) -> String {
    let mut text = String::new();
    if let Some(value) = value {
        let (unit, decimals) = topic.unit();
        // Writing to a string does not fail.
        let _ = write!(text, "{value:.decimals$}");
        if !unit.is_empty() {
            let _ = write!(text, " {unit}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_below_their_topic() {
        let figures = [
            Figure {
                agent: Some(0.0),
                budget: Some(0.0),
                ..Figure::new(Topic::Lost, "threads, 997 Hz")
            },
            Figure {
                agent: Some(2.711),
                best: Some(2.4),
                budget: Some(2.5),
                ..Figure::new(Topic::KernelTime, "threads, 997 Hz")
            },
            Figure {
                agent: Some(0.4),
                budget: Some(0.2),
                noise: Some(1.26),
                py_spy: Some(7.0),
                ..Figure::new(Topic::SlowdownByCpu, "threads, 100 Hz")
            },
        ];
        assert_eq!(
            Table(&figures).to_string().trim_start(),
            "\
             agent        best       budget                    py-spy      noise
Kernel time of a sample of the target
  threads, 997 Hz                      2.71 µs     2.40 µs    ≤ 2.50 µs  met at best
Samples lost
  threads, 997 Hz                            0                        0  met
Slowdown of the target, by CPU time (without pauses)
  threads, 100 Hz                       0.40 %                 ≤ 0.20 %  within noise      7.00 %   ± 1.26 %
"
        );
    }
}
