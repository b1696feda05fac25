//! A profile in the terminal: its totals, the table of its functions, and the tree of its calls.
//!
//! Invariants: a name from a file cannot control the terminal; no row is wider than it.

use std::{fmt, time::SystemTime};

use console::{Style, Term};
use unicode_width::UnicodeWidthStr as _;

use super::call_tree::{CallTree, Limits, Roots, Row};
use crate::{
    commands::{
        cli::ReportView,
        sources::Loaded,
        summary::{MIN_NAME_WIDTH, Summary, function_text, name_width, percent},
        terminal,
    },
    formats::EncodeOptions,
    profile::{Profile, Unit},
    text::{plural, printable, shortened},
};

/// Rows of the table of functions.
const TABLE_ROWS: usize = 20;

/// Rows of the tree.
const TREE_ROWS: usize = 100;

/// Share of its own, in per cent, from which a function of the tree is bold.
const HOT_PERCENT: f64 = 5.0;

/// A profile as it is shown on standard output.
pub(super) struct View<'a> {
    loaded: &'a Loaded,
    options: &'a ReportView,
    encoding: EncodeOptions,
    width: usize,
    has_colours: bool,
}

impl<'a> View<'a> {
    /// As wide as standard output, with colours if that is a terminal that may have them.
    pub(super) fn new(
        loaded: &'a Loaded,
        options: &'a ReportView,
        encoding: EncodeOptions,
    ) -> Self {
        let term = Term::stdout();
        Self {
            loaded,
            options,
            encoding,
            width: terminal::width(&term),
            has_colours: term.is_term() && terminal::may_have_colours(),
        }
    }
}

impl fmt::Display for View<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", Head(self.loaded))?;
        let rows = match (self.options.table, self.options.lines) {
            (true, rows) => rows.unwrap_or(TABLE_ROWS),
            (false, _) => 0,
        };
        let summary = Summary::new(&self.loaded.profile, self.encoding)
            .with_width(self.width)
            .with_functions(rows);
        write!(formatter, "{summary}")?;
        if !self.options.tree || self.loaded.profile.total_value() == 0 {
            return Ok(());
        }
        let rows = self.options.lines.unwrap_or(TREE_ROWS);
        let roots = if self.encoding.threads {
            Roots::Threads
        } else {
            Roots::Functions
        };
        let tree = Tree {
            full_file_names: self.encoding.full_file_names,
            ..Tree::new(
                summary.shown_profile(),
                roots,
                self.options,
                rows,
                self.width,
            )
        };
        writeln!(formatter)?;
        tree.write(formatter, self.has_colours)
    }
}

/// How many profiles there are, of what time, and which of their values are shown.
pub(super) struct Head<'a>(pub(super) &'a Loaded);

impl fmt::Display for Head<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loaded { files, times, .. } = *self.0;
        write!(
            formatter,
            "{files} {}",
            plural(files, "profile", "profiles")
        )?;
        if let Some((start, end)) = times {
            write!(formatter, " from {} to {}", moment(start), moment(end))?;
        }
        writeln!(formatter)?;
        let Some((types, shown)) = &self.0.types else {
            return Ok(());
        };
        let mut others: Vec<_> = types.iter().map(|of| printable(of)).collect();
        if *shown < others.len() {
            let shown = others.remove(*shown);
            write!(formatter, "Values are of type {shown}")?;
            match others.join(", ") {
                others if others.is_empty() => writeln!(formatter)?,
                others => writeln!(formatter, "; others with --sample-type: {others}")?,
            }
        }
        Ok(())
    }
}

/// A time in whole seconds; the format ends with the year 9999.
fn moment(moment: SystemTime) -> String {
    let last = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(253_402_300_799);
    let moment = moment.clamp(SystemTime::UNIX_EPOCH, last);
    humantime::format_rfc3339_seconds(moment).to_string()
}

/// The tree of calls.
struct Tree {
    calls: CallTree,
    /// Least value of a row.
    least: u64,
    total: u64,
    unit: Unit,
    value_width: usize,
    width: usize,
    full_file_names: bool,
}

impl Tree {
    fn new(
        profile: &Profile,
        roots: Roots,
        options: &ReportView,
        rows: usize,
        width: usize,
    ) -> Self {
        let total = profile.total_value();
        let unit = profile.kind.unit;
        let least = share_of(total, options.min_share.share());
        let value_width = unit.text(total).len().max("total".len());
        let room = width.saturating_sub(numbers_width(value_width) + MIN_NAME_WIDTH + 1);
        let limits = Limits {
            nodes: rows,
            value: least,
            indent: room / 2,
        };
        Self {
            calls: CallTree::new(profile, roots, limits),
            least,
            total,
            unit,
            value_width,
            width,
            full_file_names: false,
        }
    }

    fn write(&self, formatter: &mut fmt::Formatter<'_>, has_colours: bool) -> fmt::Result {
        let bold = Style::new().bold().force_styling(has_colours);
        let dim = Style::new().dim().force_styling(has_colours);
        writeln!(
            formatter,
            "{:>1$}     self   call tree",
            "total",
            "100.0%  ".len() + self.value_width
        )?;
        for row in self.calls.rows(self.least) {
            match row {
                Row::Function {
                    function,
                    indent,
                    continues,
                    own,
                    total,
                } => {
                    let total = (!continues).then_some(total);
                    let arrow = if continues { "→ " } else { "" };
                    let text = function_text(function, self.name_width(indent, arrow));
                    let text = if percent(own, self.total) >= HOT_PERCENT {
                        bold.apply_to(text)
                    } else {
                        Style::new().apply_to(text)
                    };
                    let numbers = self.numbers(total, Some(own));
                    writeln!(formatter, "{numbers}   {:1$}{arrow}{text}", "", 2 * indent)?;
                }
                Row::Folded { indent, folded } => {
                    let functions = plural(folded.functions, "function", "functions");
                    let text = format!("… {} more {functions}", folded.functions);
                    let text = shortened(&text, self.name_width(indent, ""));
                    let numbers = self.numbers(Some(folded.value), None);
                    let text = dim.apply_to(text);
                    writeln!(formatter, "{numbers}   {:1$}{text}", "", 2 * indent)?;
                }
            }
        }
        Ok(())
    }

    /// Columns that a name may have.
    fn name_width(&self, indent: usize, arrow: &str) -> usize {
        let before = numbers_width(self.value_width) + 2 * indent + arrow.width();
        name_width(self.width.saturating_sub(before), self.full_file_names)
    }

    /// For example ` 42.9%  1.50 s    7.5%`, with spaces for what is not shown.
    fn numbers(&self, total: Option<u64>, own: Option<u64>) -> String {
        let share = |value| format!("{:.1}%", percent(value, self.total));
        let own = own.filter(|&own| own != 0).map(share).unwrap_or_default();
        let (share, value) = match total {
            Some(total) => (share(total), self.unit.text(total)),
            None => (String::new(), String::new()),
        };
        let width = self.value_width;
        format!("{share:>6}  {value:>width$}   {own:>6}")
    }
}

/// Columns before the names.
fn numbers_width(value_width: usize) -> usize {
    "100.0%  ".len() + value_width + "   100.0%   ".len()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is from 0 to 100, and a limit of what is shown need not be exact"
)]
fn share_of(total: u64, share: f64) -> u64 {
    (total as f64 * share).ceil() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{formats::FunctionNames, profile::fixtures::example_profile, store::SkippedFiles};

    fn loaded(file: &str) -> Loaded {
        let profile = example_profile(file);
        let times = Some((profile.start, profile.start + Duration::from_secs(10)));
        Loaded {
            profile,
            files: 1,
            times,
            skipped: SkippedFiles::default(),
            types: None,
        }
    }

    fn view(loaded: &Loaded, options: &ReportView, width: usize) -> String {
        let view = View {
            loaded,
            options,
            encoding: EncodeOptions::default(),
            width,
            has_colours: false,
        };
        view.to_string()
    }

    fn options(table: bool, tree: bool) -> ReportView {
        ReportView {
            table,
            tree,
            lines: None,
            min_share: "1%".parse().unwrap(),
        }
    }

    #[test]
    fn a_tree_has_shares_and_what_is_left_out() {
        let mut loaded = loaded("/srv/app/main.py");
        loaded.profile.losses = crate::profile::Losses::default();
        let text = view(&loaded, &options(false, true), 80);
        let (head, tree) = text.split_once("\n\n").unwrap();
        assert!(
            head.contains("400 samples in 10.0 s, 4.00 s of CPU"),
            "{head}"
        );
        let rows: Vec<_> = tree.lines().collect();
        assert_eq!(rows[0], "         total     self   call tree");
        assert_eq!(
            rows[2],
            " 90.2%  3.61 s     1.2%     main  /srv/app/main.py:3"
        );
        assert_eq!(
            rows.last(),
            Some(&"  1.0%  0.04 s            … 2 more functions")
        );
    }

    #[test]
    fn stacks_begin_with_their_threads_on_request() {
        let loaded = loaded("/srv/app/main.py");
        let options = options(false, true);
        let view = View {
            loaded: &loaded,
            options: &options,
            encoding: EncodeOptions {
                threads: true,
                function_names: FunctionNames::Module,
                ..EncodeOptions::default()
            },
            width: 80,
            has_colours: false,
        };
        let text = view.to_string();
        let (_, tree) = text.split_once("call tree\n").unwrap();
        // Behind the columns of numbers.
        let names = tree.lines().map(|row| row.split_at(26).1);
        let roots: Vec<_> = names.filter(|name| !name.starts_with([' ', '→'])).collect();
        assert_eq!(roots[0], "MainThread (4242)", "{text}");
        assert!(roots.contains(&"worker (4243)"), "{text}");
        assert!(
            !roots.contains(&"main.<module>  /srv/app/main.py:1"),
            "{text}"
        );
        assert!(tree.contains("main.fib  /srv/app/main.py:7\n"), "{text}");
    }

    #[test]
    fn no_row_is_wider_than_the_terminal() {
        let mut loaded = loaded("/srv/日本語/directory/of/a/long/name/main.py");
        let mut options = options(true, true);
        options.min_share = "0%".parse().unwrap();
        for name in &mut loaded.profile.functions {
            name.name
                .push_str("\x1b[31m日本語日本語日本語日本語日本語日本語");
        }
        loaded.profile.losses = crate::profile::Losses::default();
        for width in [60, 80, 120] {
            let text = view(&loaded, &options, width);
            assert!(!text.contains('\x1b'));
            for line in text.lines().skip(2) {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn hot_functions_are_bold_where_there_are_colours() {
        let loaded = loaded("main.py");
        let options = options(false, true);
        let view = View {
            loaded: &loaded,
            options: &options,
            encoding: EncodeOptions::default(),
            width: 80,
            has_colours: true,
        };
        let text = view.to_string();
        assert!(text.contains("\x1b[1mfib  main.py:7\x1b[0m"), "{text}");
        assert!(!text.contains("\x1b[1mmain"), "{text}");
    }

    #[test]
    fn the_types_of_values_are_named() {
        let mut loaded = loaded("main.py");
        loaded.times = None;
        loaded.types = Some((
            vec!["alloc\x1bspace".to_owned(), "inuse_space".to_owned()],
            1,
        ));
        assert_eq!(
            Head(&loaded).to_string(),
            "1 profile\nValues are of type inuse_space; others with --sample-type: alloc\\u{1b}space\n"
        );
    }
}
