//! The table of what has changed.

use std::fmt;

use console::Term;

use super::comparison::{Change, Comparison, FunctionChange, Grown};
use crate::{
    commands::{
        summary::{function_text, more_rows, name_width},
        terminal,
    },
    formats::EncodeOptions,
    profile::Unit,
    text::{plural, printable},
};

/// Rows of the table by default.
const ROWS: usize = 20;

/// Columns of a value.
const VALUE_WIDTH: usize = 9;

/// The table of a comparison, as wide as standard output.
#[derive(Debug)]
pub(super) struct Table<'a> {
    comparison: &'a Comparison,
    rows: usize,
    width: usize,
    full_file_names: bool,
}

impl<'a> Table<'a> {
    /// A table of at most so many functions.
    pub(super) fn new(
        comparison: &'a Comparison,
        rows: Option<usize>,
        encoding: EncodeOptions,
    ) -> Self {
        Self {
            comparison,
            rows: rows.unwrap_or(ROWS),
            width: terminal::width(&Term::stdout()),
            full_file_names: encoding.full_file_names,
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
        let room = self.width.saturating_sub(5 * (VALUE_WIDTH + 2) + 2);
        let width = name_width(room, self.full_file_names);
        writeln!(
            formatter,
            "{}  {}  {}  {:>+7.1} %  {}   {}",
            value_text(unit, row.own.before),
            value_text(unit, row.own.after),
            change_text(unit, row.own),
            100.0 * self.comparison.share(row.own),
            change_text(unit, row.total),
            function_text(&row.function, width)
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
        for row in functions.iter().take(self.rows) {
            self.write_row(formatter, row)?;
        }
        more_rows(
            formatter,
            functions.len(),
            self.rows,
            "function",
            "functions",
        )?;
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

    /// A table of the example after `fib` has taken twice the time.
    fn table(rows: Option<usize>, full_file_names: bool) -> String {
        let before = example_profile("/srv/app/main.py");
        let mut after = before.clone();
        for sample in &mut after.samples[..2] {
            sample.count *= 2;
            sample.value *= 2;
        }
        let encoding = EncodeOptions {
            full_file_names,
            ..EncodeOptions::default()
        };
        let comparison = Comparison::new([&before, &after], false, encoding);
        let table = Table {
            width: 80,
            ..Table::new(&comparison, rows, encoding)
        };
        table.to_string()
    }

    #[test]
    fn what_has_changed_is_a_row() {
        assert_eq!(
            table(None, false),
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

    #[test]
    fn rows_and_paths_are_as_they_are_asked_for() {
        let one = table(Some(1), false);
        assert!(
            one.contains("   fib  /srv/app/main.py\n… and 2 more functions\n"),
            "{one}"
        );
        assert!(!one.contains("   main  "), "{one}");
        let full = table(None, true);
        assert!(full.contains("   <module>  /srv/app/main.py\n"), "{full}");
    }
}
