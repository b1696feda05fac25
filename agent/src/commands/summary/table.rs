//! The summary of a profile: what it says in a few lines, and its functions.
//!
//! Invariant: before what was lost a summary that is not asked for has at most [`LINES`].

use std::{borrow::Cow, fmt};

use console::Term;
use unicode_width::UnicodeWidthStr as _;

use super::{
    overview,
    rank::{FunctionRow, Named, busiest_processes, hottest_functions},
    share::percent,
};
use crate::text::{plural, shortened, shortened_path};
use crate::{
    commands::terminal,
    formats::{EncodeOptions, losses},
    profile::{LineNumbers, Losses, Process, ProcessIndex, Profile, Unit},
    text::printable,
};

/// Rows of the table of processes, which is shown for several.
const PROCESS_ROWS: usize = 5;
/// Lines of a summary without what was lost.
const LINES: usize = 10;
/// Fewest rows of the table of functions.
const MIN_FUNCTION_ROWS: usize = 2;
/// Least columns of a function or a process.
pub(crate) const MIN_NAME_WIDTH: usize = 20;

/// The process or the busiest ones, the hottest functions, and what was lost.
#[derive(Debug)]
pub struct Summary<'a> {
    profile: Cow<'a, Profile>,
    width: usize,
    /// Rows of the table of functions that is asked for; [`None`] for a summary of [`LINES`].
    function_rows: Option<usize>,
    full_file_names: bool,
}

impl<'a> Summary<'a> {
    /// A summary as wide as standard error.
    #[must_use]
    pub fn new(profile: &'a Profile, options: EncodeOptions) -> Self {
        Self {
            profile: in_tables(profile, options),
            width: terminal::width(&Term::stderr()),
            function_rows: None,
            full_file_names: options.full_file_names,
        }
    }

    /// The profile as it is shown: without frames of interpreters unless these are asked for.
    pub(crate) fn shown_profile(&self) -> &Profile {
        &self.profile
    }

    /// The summary with tables instead of the first rows: of so many functions, none for 0.
    #[must_use]
    pub(crate) fn with_functions(self, function_rows: usize) -> Self {
        Self {
            function_rows: Some(function_rows),
            ..self
        }
    }

    /// The summary in so many columns.
    #[must_use]
    pub fn with_width(self, width: usize) -> Self {
        Self { width, ..self }
    }

    fn write_head(&self, formatter: &mut fmt::Formatter<'_>, total: u64) -> fmt::Result {
        let kind = self.profile.kind;
        let duration = self.profile.duration.as_secs_f64();
        let during = if self.profile.duration.is_zero() {
            // Of what is in memory at one time, for example.
            String::new()
        } else {
            format!(" in {duration:.1} s")
        };
        let subject = match &*self.profile.processes {
            [] => "all processes".to_owned(),
            [process] if process.pid == 0 && process.name.is_empty() => "all processes".to_owned(),
            [process] if process.pid == 0 => process_text(process),
            [process] => subject_text(process),
            several => format!("{} processes", several.len()),
        };
        if total != 0 {
            writeln!(
                formatter,
                "{subject}: {total} {}{during}, {} {}{}",
                if kind.is_foreign() {
                    kind.names.sample_types[0].name
                } else {
                    let (one, many) = kind.counted();
                    plural(total, one, many)
                },
                kind.unit.text(self.profile.total_value()),
                self.profile.total_words(),
                standard_error(self.profile.losses.raise_variance),
            )
        } else if !self.profile.filtered_out.is_empty() {
            writeln!(
                formatter,
                "{subject}: no samples, those of these {duration:.1} s were not asked for."
            )
        } else if self.profile.losses.lost_samples != 0 {
            writeln!(
                formatter,
                "{subject}: no samples, those of these {duration:.1} s were lost."
            )
        } else if let Some(what) = kind.found_in_some() {
            let text = self.unprobed_text(what);
            writeln!(formatter, "{subject}: no samples{text}")
        } else {
            let nobody = match &*self.profile.processes {
                [_] => format!("the process {}", kind.words.none),
                _ => format!("no process {}", kind.words.any),
            };
            writeln!(
                formatter,
                "{subject}: no samples, {nobody} in these {duration:.1} s."
            )
        }
    }

    /// Whether one of the processes runs a Python that is supported.
    fn has_python(&self) -> bool {
        self.profile.processes.iter().any(|of| of.is_python)
    }

    /// What it means that there are no samples of a kind that only some processes can have: not that there was nothing, as
    /// they are recorded only where CPython runs, and as soon as that is known.
    fn unprobed_text(&self, what: &str) -> String {
        let duration = self.profile.duration.as_secs_f64();
        match (&*self.profile.processes, self.has_python()) {
            ([], _) => format!(
                ", no process that runs CPython {} in these {duration:.1} s.",
                self.profile.kind.words.any
            ),
            (_, true) => format!(", no {what} were recorded in these {duration:.1} s."),
            (processes, false) if self.profile.losses.unprobed != 0 => {
                let runs = if processes.len() == 1 {
                    "it runs no"
                } else {
                    "none runs a"
                };
                format!(", as {runs} CPython of which {what} could be recorded.")
            }
            (_, false) => format!(": {what} are recorded only where CPython runs."),
        }
    }

    /// Writes what the profile says, and its functions.
    fn write_rows(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = Columns::new(self.profile.total_value(), self.profile.kind.unit);
        let mut lines = overview::lines(&self.profile, self.width);
        let Some(rows) = self.function_rows else {
            lines.extend(overview::processes_line(&self.profile, self.width));
            for line in &lines {
                writeln!(formatter, "{line}")?;
            }
            // The head, and that of the table.
            let rest = LINES.saturating_sub(lines.len() + 2);
            let rows = rest.max(MIN_FUNCTION_ROWS);
            let mut functions = hottest_functions(&self.profile);
            functions.retain(|row| row.own != 0);
            return self.write_functions(formatter, &columns, &functions, rows);
        };
        for line in lines {
            writeln!(formatter, "{line}")?;
        }
        if self.profile.processes.len() > 1 {
            self.write_processes(formatter, &columns)?;
        }
        if rows == 0 {
            return Ok(());
        }
        writeln!(formatter)?;
        let functions = hottest_functions(&self.profile);
        self.write_functions(formatter, &columns, &functions, rows)?;
        more_rows(formatter, functions.len(), rows, "function", "functions")
    }

    fn write_processes(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        columns: &Columns,
    ) -> fmt::Result {
        let rows = busiest_processes(&self.profile);
        let (shown, rest) = rows.split_at(rows.len().min(PROCESS_ROWS));
        let process = |index: ProcessIndex| &self.profile.processes[index.0 as usize];
        let pids = shown.iter().map(|&(index, _)| pid_text(process(index)));
        let pid_width = pids
            .map(|pid| pid.len())
            .max()
            .unwrap_or(0)
            .max("pid".len());
        let width = self
            .width
            .saturating_sub(columns.width + 3 + pid_width + 3 + 1)
            .max(MIN_NAME_WIDTH);

        writeln!(
            formatter,
            "\n{:>1$}   {2:>pid_width$}   process",
            "total", columns.width, "pid"
        )?;
        for &(index, value) in shown {
            let process = process(index);
            writeln!(
                formatter,
                "{}   {:>pid_width$}   {}",
                columns.cell(value),
                pid_text(process),
                shortened(&process_text(process), width)
            )?;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let value = rest.iter().map(|&(_, value)| value).sum();
        writeln!(
            formatter,
            "{}   {:>pid_width$}   … and {} more {}",
            columns.cell(value),
            "",
            rest.len(),
            plural(rest.len() as u64, "process", "processes")
        )
    }

    /// Writes at most so many functions.
    fn write_functions(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        columns: &Columns,
        rows: &[FunctionRow],
        most: usize,
    ) -> fmt::Result {
        let room = self.width.saturating_sub(2 * (columns.width + 3) + 1);
        let width = name_width(room, self.full_file_names);

        writeln!(
            formatter,
            "{:>2$}   {:>2$}   function",
            "self", "total", columns.width
        )?;
        for row in rows.iter().take(most) {
            writeln!(
                formatter,
                "{}   {}   {}",
                columns.cell(row.own),
                columns.cell(row.total),
                function_text(&row.function, width)
            )?;
        }
        Ok(())
    }
}

/// The profile as tables show it: its frames of interpreters, and the names and lines of its functions.
pub(crate) fn in_tables(profile: &Profile, options: EncodeOptions) -> Cow<'_, Profile> {
    let profile = if options.internals.are_in_tables() {
        Cow::Borrowed(profile)
    } else {
        Cow::Owned(profile.without_interpreters())
    };
    // Functions have their first lines in any case.
    let profile = match options.line_numbers {
        LineNumbers::Hidden => Cow::Owned(profile.with_line_numbers(LineNumbers::Hidden)),
        LineNumbers::Current | LineNumbers::First => profile,
    };
    options.function_names.in_profile(profile)
}

/// What is behind a number with this variance; nothing where it is exact.
fn standard_error(variance: u64) -> String {
    if variance == 0 {
        return String::new();
    }
    format!(" (± {}, the standard error)", variance.isqrt())
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.profile.total();
        self.write_head(formatter, total)?;
        if total != 0 {
            self.write_rows(formatter)?;
        }
        let has_pools = self.has_python() && self.profile.losses.own_allocators == 0;
        let limits = self.profile.kind.limits(has_pools).map(str::to_owned);
        let is_only_unprobed = total == 0 && self.profile.losses.unprobed == 1;
        let without_head = Losses {
            // They are in the first line.
            raise_variance: 0,
            unprobed: if is_only_unprobed && !self.has_python() {
                0
            } else {
                self.profile.losses.unprobed
            },
            ..self.profile.losses
        };
        let losses = losses::sentences(&self.profile.filtered_out, &without_head);
        let sentences: Vec<_> = limits.into_iter().chain(losses).collect();
        if !sentences.is_empty() {
            writeln!(formatter)?;
        }
        for sentence in sentences {
            writeln!(formatter, "{sentence}")?;
        }
        Ok(())
    }
}

/// Columns that a name may have where there are so many: whole paths have as many as they need.
pub(crate) fn name_width(room: usize, full_file_names: bool) -> usize {
    if full_file_names {
        usize::MAX
    } else {
        room.max(MIN_NAME_WIDTH)
    }
}

/// `name  file:line` or `name  executable`; what is too wide loses the file's first folders, then the
/// place, then the end of the name.
pub(crate) fn function_text(function: &Named, width: usize) -> String {
    let name = printable(function.name.trim());
    let place = printable(&function.place);
    let (name, place) = name_and_place(&name, &place, width);
    match place {
        Some(place) => format!("{name}  {place}"),
        None => name.into_owned(),
    }
}

/// A name and a place that fit into `width` columns with two spaces between them; [`None`] where there is
/// no room for the place.
pub(crate) fn name_and_place<'a>(
    name: &'a str,
    place: &'a str,
    width: usize,
) -> (Cow<'a, str>, Option<Cow<'a, str>>) {
    let room = width.saturating_sub(name.width() + 2);
    match shortened_path(place, room).filter(|_| !place.is_empty()) {
        Some(place) => (Cow::Borrowed(name), Some(place)),
        None => (shortened(name, width), None),
    }
}

/// Writes how many rows of a table are not shown.
pub(crate) fn more_rows(
    formatter: &mut fmt::Formatter<'_>,
    rows: usize,
    shown: usize,
    one: &'static str,
    several: &'static str,
) -> fmt::Result {
    match rows.saturating_sub(shown) {
        0 => Ok(()),
        rest => writeln!(
            formatter,
            "… and {rest} more {}",
            plural(rest as u64, one, several)
        ),
    }
}

/// The id of a process; empty for several processes of a service.
fn pid_text(process: &Process) -> String {
    match process.pid {
        0 => String::new(),
        pid => pid.to_string(),
    }
}

/// For example `python3.12 (pid 4711, CPython 3.12.1)`.
pub(crate) fn subject_text(process: &Process) -> String {
    let name = printable(&process.name);
    match &*process.runtime {
        "" => format!("{name} (pid {})", process.pid),
        runtime => format!("{name} (pid {}, {})", process.pid, printable(runtime)),
    }
}

/// For example `python3.12, CPython 3.12.1`.
fn process_text(process: &Process) -> String {
    let name = printable(process.name.trim());
    match (&*process.runtime, process.is_python) {
        ("", true) => format!("{name}, Python"),
        ("", false) => format!("{name}, no Python"),
        (runtime, _) => format!("{name}, {}", printable(runtime)),
    }
}

/// How values are shown: as a share of all, and with their unit.
struct Columns {
    total: u64,
    unit: Unit,
    value_width: usize,
    width: usize,
}

impl Columns {
    /// Columns as wide as the largest value, which is that of all samples.
    fn new(total: u64, unit: Unit) -> Self {
        let value_width = unit.text(total).len().max("0.00 s".len());
        Self {
            total,
            unit,
            value_width,
            width: "100.0%".len() + 2 + value_width,
        }
    }

    /// For example ` 42.9%  1.50 s`.
    fn cell(&self, value: u64) -> String {
        format!(
            "{:>5.1}%  {:>2$}",
            percent(value, self.total),
            self.unit.text(value),
            self.value_width
        )
    }
}

#[cfg(test)]
mod tests;
