//! The table of what has changed.

use std::fmt;

use console::Term;

use super::comparison::{Change, Comparison, FunctionChange, Grown};
use crate::{
    commands::{
        summary::{MIN_NAME_WIDTH, function_text},
        terminal,
    },
    profile::Unit,
    text::{plural, printable},
};

/// Rows of the table.
const ROWS: usize = 20;

/// Columns of a value.
const VALUE_WIDTH: usize = 9;

/// The table of a comparison, as wide as standard output.
#[derive(Debug)]
pub(super) struct Table<'a> {
    comparison: &'a Comparison,
    width: usize,
}

impl<'a> Table<'a> {
    pub(super) fn new(comparison: &'a Comparison) -> Self {
        Self {
            comparison,
            width: terminal::width(&Term::stdout()),
        }
    }

    fn write_head(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { kind, all, .. } = self.comparison;
        let words = kind.words.total;
        let value = |value| value_text(kind.unit, value);
        if self.comparison.is_normalized {
            return writeln!(formatter, "shares of {} {words}", value(all.after).trim());
        }
        writeln!(
            formatter,
            "{} {words} before, {} after: {} ({:+.1} %){}",
            value(all.before).trim(),
            value(all.after).trim(),
            change_text(kind.unit, *all).trim(),
            100.0 * self.comparison.share(*all),
            if all.is_real() {
                ""
            } else {
                ", which may be chance"
            }
        )
    }

    fn write_row(&self, formatter: &mut fmt::Formatter<'_>, row: &FunctionChange) -> fmt::Result {
        let unit = self.comparison.kind.unit;
        let width = self.width.saturating_sub(5 * (VALUE_WIDTH + 2) + 2);
        writeln!(
            formatter,
            "{}  {}  {}  {:>+7.1} %  {}   {}",
            value_text(unit, row.own.before),
            value_text(unit, row.own.after),
            change_text(unit, row.own),
            100.0 * self.comparison.share(row.own),
            change_text(unit, row.total),
            function_text(&row.function, width.max(MIN_NAME_WIDTH))
        )
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(formatter)?;
        let functions = &self.comparison.functions;
        if !functions.is_empty() {
            writeln!(
                formatter,
                "\n{:>VALUE_WIDTH$}  {:>VALUE_WIDTH$}  {:>VALUE_WIDTH$}  {:>VALUE_WIDTH$}  \
                 {:>VALUE_WIDTH$}   function",
                "self", "self now", "change", "of all", "total"
            )?;
        }
        let shown = &functions[..functions.len().min(ROWS)];
        for row in shown {
            self.write_row(formatter, row)?;
        }
        let rest = functions.len() - shown.len();
        if rest != 0 {
            let functions = plural(rest as u64, "function", "functions");
            writeln!(formatter, "… and {rest} more {functions}")?;
        }
        let unchanged = self.comparison.unchanged;
        let of = plural(unchanged as u64, "function has", "functions have");
        writeln!(
            formatter,
            "\n{unchanged} {of} not changed by more than chance (three standard errors)."
        )
    }
}

/// What has grown, for a message.
pub(super) fn grown_text(grown: &Grown<'_>) -> String {
    match grown.function {
        None => "the total".to_owned(),
        Some(function) => printable(&function.name).into_owned(),
    }
}

fn value_text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds => format!("{:>1$.2} s", value / 1e9, VALUE_WIDTH - 2),
        Unit::Events => format!("{value:>VALUE_WIDTH$.0}"),
        Unit::Bytes => format!("{:>1$.1} MB", value / 1e6, VALUE_WIDTH - 3),
    }
}

fn change_text(unit: Unit, change: Change) -> String {
    let difference = change.difference();
    match unit {
        Unit::Nanoseconds => format!("{:>+1$.2} s", difference / 1e9, VALUE_WIDTH - 2),
        Unit::Events => format!("{difference:>+VALUE_WIDTH$.0}"),
        Unit::Bytes => format!("{:>+1$.1} MB", difference / 1e6, VALUE_WIDTH - 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures::example_profile;

    #[test]
    fn what_has_changed_is_a_row() {
        let before = example_profile("/srv/app/main.py");
        let mut after = before.clone();
        for sample in &mut after.samples[..2] {
            sample.count *= 2;
            sample.value *= 2;
        }
        let comparison = Comparison::new(&before, &after, false);
        let table = Table {
            comparison: &comparison,
            width: 80,
        };
        assert_eq!(
            table.to_string(),
            "\
4.00 s of CPU before, 5.50 s after: +1.50 s (+37.5 %)

     self   self now     change     of all      total   function
   1.50 s     3.00 s    +1.50 s    +37.5 %    +1.50 s   fib  /srv/app/main.py
   0.00 s     0.00 s    +0.00 s     +0.0 %    +1.50 s   <module>  …/app/main.py
   0.05 s     0.05 s    +0.00 s     +0.0 %    +1.50 s   main  /srv/app/main.py

18 functions have not changed by more than chance (three standard errors).
"
        );
    }
}
