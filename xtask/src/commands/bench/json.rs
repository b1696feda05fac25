//! The figures as JSON: an object with the machine, the versions and a flat list.

use std::fmt::Write as _;

use super::figure::{Figure, Verdict};
use super::machine::Machine;

/// All figures of a run, by the version of the interpreter.
pub(super) fn document(
    machine: &Machine,
    py_spy: Option<&str>,
    figures: &[(String, Vec<Figure>)],
) -> String {
    let machine = object(&[
        ("kernel", text(&machine.kernel)),
        ("cpu", text(&machine.cpu)),
        ("cpus", machine.cpus.to_string()),
        ("load_at_start", number(Some(machine.load_at_start))),
        ("load_at_end", number(Some(machine.load_at_end))),
        ("stolen_percent", number(Some(machine.stolen))),
    ]);
    let figures: Vec<_> = figures
        .iter()
        .flat_map(|(python, figures)| figures.iter().map(move |figure| entry(python, figure)))
        .collect();
    format!(
        "{{\"machine\": {machine},\n\"py_spy\": {},\n\"figures\": [\n{}\n]}}\n",
        py_spy.map_or("null".to_owned(), text),
        figures.join(",\n")
    )
}

fn entry(python: &str, figure: &Figure) -> String {
    let (unit, _) = figure.topic.unit();
    object(&[
        ("python", text(python)),
        ("topic", text(figure.topic.title())),
        ("case", text(&figure.case)),
        ("unit", text(unit)),
        ("agent", number(figure.agent)),
        ("best", number(figure.best)),
        ("budget", number(figure.budget)),
        (
            "verdict",
            figure
                .verdict()
                .map_or("null".to_owned(), |verdict: Verdict| text(verdict.name())),
        ),
        ("py_spy", number(figure.py_spy)),
        ("noise", number(figure.noise)),
    ])
}

fn object(members: &[(&str, String)]) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(name, value)| format!("{}: {value}", text(name)))
        .collect();
    format!("{{{}}}", members.join(", "))
}

/// JSON has no infinities and no NaN.
fn number(value: Option<f64>) -> String {
    value
        .filter(|value| value.is_finite())
        .map_or("null".to_owned(), |value| value.to_string())
}

fn text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::figure::Topic;
    use super::*;

    #[test]
    fn texts_are_quoted() {
        assert_eq!(text("a \"b\" \\ c\n"), r#""a \"b\" \\ c\u000a""#);
    }

    #[test]
    fn what_is_missing_is_null() {
        let figure = Figure {
            agent: Some(0.5),
            best: Some(f64::NAN),
            budget: Some(1.0),
            ..Figure::new(Topic::Split, "asleep")
        };
        assert_eq!(
            entry("3.13.0", &figure),
            "{\"python\": \"3.13.0\", \"topic\": \"Error of the CPU split, of all CPU time\", \
             \"case\": \"asleep\", \"unit\": \"%\", \"agent\": 0.5, \"best\": null, \
             \"budget\": 1, \"verdict\": \"met\", \"py_spy\": null, \"noise\": null}"
        );
    }
}
