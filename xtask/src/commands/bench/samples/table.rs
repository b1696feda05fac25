//! The figures as tables of Markdown, those of two agents beside each other.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::agent::Stacks;
use super::super::budget;
use super::case::Case;
use super::cost::Cost;
use super::start::Start;
use crate::commands::observe::stats::float;

/// Maps that are smaller in all modes have no row.
const LEAST_MAP_BYTES: u64 = 500_000;

/// The kernel time of recorded samples, each case with that of another agent if there is one.
pub(super) fn costs(costs: &[(Case, Cost, Option<Cost>)]) -> String {
    let has_other = costs.iter().any(|(_, _, other)| other.is_some());
    let mut text =
        "| target | rate | agent | frames | per sample | least | budget | | samples | empty runs per \
         sample |"
            .to_owned();
    let mut rule = "\n|---|---|---|---|---|---|---|---|---|---|".to_owned();
    if has_other {
        text.push_str(" other agent | ratio | its samples |");
        rule.push_str("---|---|---|");
    }
    text.push_str(&rule);
    for (case, cost, other) in costs {
        let budget = case.budget_us();
        let (middle, least) = (cost.sample_us(), cost.least_us());
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n| {} | {} Hz | {} | {} | {} | {} | {} | {} | {} | {} |",
            case.target.what,
            case.rate_hz,
            case.scope.name(),
            frames(case.stacks),
            number(middle, "µs"),
            number(least, "µs"),
            budget.map_or(DASH.to_owned(), |budget| format!("≤ {budget} µs")),
            verdict(middle, least, budget),
            cost.samples(),
            number(cost.empty_runs(), "").trim_end(),
        );
        if let Some(other) = other {
            let theirs = other.sample_us();
            let ratio = middle.zip(theirs).map(|(ours, theirs)| ours / theirs);
            let _ = write!(
                text,
                " {} | {} | {} |",
                number(theirs, "µs"),
                number(ratio, "").trim_end(),
                other.samples()
            );
        }
    }
    text.push('\n');
    text
}

/// What is printed where there is no figure.
const DASH: &str = "–";

fn frames(stacks: Stacks) -> &'static str {
    match stacks {
        Stacks::Python => "Python",
        Stacks::Whole => "and native",
    }
}

fn number(value: Option<f64>, unit: &str) -> String {
    value.map_or(DASH.to_owned(), |value| format!("{value:.2} {unit}"))
}

fn verdict(middle: Option<f64>, least: Option<f64>, budget: Option<f64>) -> &'static str {
    match (middle, least, budget) {
        (Some(middle), _, Some(budget)) if middle <= budget => "met",
        (_, Some(least), Some(budget)) if least <= budget => "met at least",
        (Some(_), _, Some(_)) => "MISSED",
        _ => "",
    }
}

/// What starts cost; the names of the agents head their columns.
pub(super) fn starts(agents: &[(&str, Vec<Start>)]) -> String {
    let mut text = "| |".to_owned();
    let all: Vec<_> = agents
        .iter()
        .flat_map(|(name, starts)| starts.iter().map(move |start| (*name, start)))
        .collect();
    for (name, start) in &all {
        let of = if agents.len() > 1 { *name } else { "" };
        let (scope, frames) = (start.scope.name(), frames(start.stacks));
        let head = format!("{of} {scope}, {frames}");
        let _ = write!(text, " {} |", head.trim());
    }
    text.push_str(" budget: --pid, host |\n|---|");
    text.push_str(&"---|".repeat(all.len() + 1));
    text.push('\n');
    let mut row = |what: &str, value: &dyn Fn(&Start) -> Option<String>, budget: &str| {
        let cells: Vec<_> = all
            .iter()
            .map(|(_, start)| value(start).unwrap_or(DASH.to_owned()))
            .collect();
        let _ = writeln!(text, "| {what} | {} | {budget} |", cells.join(" | "));
    };
    let megabytes = |bytes: u64| format!("{:.1} MB", float(bytes) / 1e6);
    row(
        "wall time of a capture of 0.1 s less its duration",
        &|start| Some(format!("{:.3} s", start.capture_seconds?)),
        &format!("≤ {} s, {DASH}", budget::CAPTURE_SECONDS),
    );
    row(
        "memory: its peak, a host's without processes",
        &|start| Some(format!("{:.1} MB", start.memory_bytes / 1e6)),
        &format!("≤ {0} MB, ≤ {0} MB", budget::START_MEMORY_MB),
    );
    row(
        "BPF maps",
        &|start| Some(megabytes(start.maps.values().sum())),
        &format!(
            "≤ {} MB, ≤ {} MB and unwind tables",
            budget::CAPTURE_MAPS_MB,
            budget::HOST_MAPS_MB
        ),
    );
    let maps: BTreeSet<_> = all
        .iter()
        .flat_map(|(_, start)| &start.maps)
        .filter(|(_, bytes)| **bytes >= LEAST_MAP_BYTES)
        .map(|(name, _)| name)
        .collect();
    for name in maps {
        row(
            &format!("map {name}"),
            &|start| start.maps.get(name).map(|&bytes| megabytes(bytes)),
            "",
        );
    }
    row(
        "verified instructions",
        &|start| Some(start.verified.values().sum::<u64>().to_string()),
        "",
    );
    let programs: BTreeSet<_> = all
        .iter()
        .flat_map(|(_, start)| start.verified.keys())
        .collect();
    for name in programs {
        row(
            &format!("of program {name}"),
            &|start| start.verified.get(name).map(u64::to_string),
            "",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::case::{self, Scope};
    use super::*;

    #[test]
    fn a_case_is_a_row() {
        let (_, cases) = &case::all()[0];
        let rows = costs(&[
            (cases[0], Cost::default(), None),
            (cases[1], Cost::default(), Some(Cost::default())),
        ]);
        let lines: Vec<_> = rows.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[2],
            "| w1: one thread, 31 frames | 19 Hz | --pid | Python | – | – | ≤ 12 µs |  | 0 | – |"
        );
        assert!(lines[3].ends_with("| – | – | 0 |"), "{}", lines[3]);
    }

    #[test]
    fn budgets_are_met_by_the_middle_or_the_least() {
        assert_eq!(verdict(Some(5.0), Some(4.0), Some(6.0)), "met");
        assert_eq!(verdict(Some(7.0), Some(6.0), Some(6.0)), "met at least");
        assert_eq!(verdict(Some(7.0), Some(6.5), Some(6.0)), "MISSED");
        assert_eq!(verdict(Some(7.0), Some(6.5), None), "");
        assert_eq!(verdict(None, None, Some(6.0)), "");
    }

    #[test]
    fn modes_are_columns() {
        let start = Start {
            scope: Scope::Host,
            stacks: Stacks::Whole,
            capture_seconds: None,
            memory_bytes: 20e6,
            maps: BTreeMap::from([("SMALL".to_owned(), 1), ("LARGE".to_owned(), 9_000_000)]),
            verified: BTreeMap::from([("on_sample".to_owned(), 1000)]),
        };
        let text = starts(&[("a", vec![start])]);
        let rows: Vec<_> = text.lines().collect();
        assert_eq!(rows[0], "| | host, and native | budget: --pid, host |");
        assert!(rows.contains(&"| map LARGE | 9.0 MB |  |"), "{text}");
        assert!(
            rows.contains(&"| of program on_sample | 1000 |  |"),
            "{text}"
        );
        assert!(!text.contains("SMALL"));
    }
}
