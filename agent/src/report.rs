//! What the user sees on standard error: a line of progress, then a summary.
//!
//! Invariants: nothing that is not a terminal sees progress; a name from another process cannot
//! steer the terminal; a line of progress or of the table is no wider than the terminal.

use std::{borrow::Cow, cmp::Reverse, collections::HashSet, fmt, time::Duration};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::{
    encode::{losses, text::printable},
    profile::{FunctionId, Profile},
};

/// Functions in the table.
const ROWS: usize = 10;
/// Columns that are assumed where standard error is not a terminal.
const DEFAULT_WIDTH: usize = 100;
/// Fewest columns that a function gets, however narrow the terminal is.
const MIN_FUNCTION_WIDTH: usize = 20;

/// A line that tells how sampling goes; cleared when it is finished or dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    total: String,
}

impl Progress {
    /// Begins the line of a run that takes so long.
    #[must_use]
    pub fn new(total: Duration) -> Self {
        // Shows nothing where standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // The message is cut where the terminal ends.
        let style = ProgressStyle::with_template("{spinner} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner())
            .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏");
        bar.set_style(style);
        let progress = Self {
            bar,
            total: humantime::format_duration(total).to_string(),
        };
        progress.update(Duration::ZERO, 0);
        progress
    }

    /// Draws the line anew; it moves on as often as this is called.
    pub fn update(&self, elapsed: Duration, samples: u64) {
        self.bar.set_message(format!(
            "{} of {} · {samples} {} · Ctrl-C ends early",
            elapsed_text(elapsed),
            self.total,
            plural(samples, "sample", "samples"),
        ));
        self.bar.tick();
    }

    /// Clears the line.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// For example `4.2s` or `1m 04s`.
fn elapsed_text(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{}.{}s", elapsed.as_secs(), elapsed.subsec_millis() / 100),
        seconds => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

/// The result in a few lines: the process, its hottest functions, what was lost.
#[derive(Debug)]
pub struct Summary<'a> {
    profile: &'a Profile,
    width: usize,
}

impl<'a> Summary<'a> {
    /// The summary of a profile, as wide as standard error.
    #[must_use]
    pub fn new(profile: &'a Profile) -> Self {
        let columns = Term::stderr().size_checked().map(|(_, columns)| columns);
        Self {
            profile,
            // Serial lines and some containers' terminals say that they have none.
            width: columns
                .filter(|&columns| columns != 0)
                .map_or(DEFAULT_WIDTH, usize::from),
        }
    }

    /// The same, in so many columns.
    #[must_use]
    pub fn with_width(self, width: usize) -> Self {
        Self { width, ..self }
    }

    fn write_head(&self, formatter: &mut fmt::Formatter<'_>, total: u64) -> fmt::Result {
        let Profile {
            process, duration, ..
        } = self.profile;
        write!(
            formatter,
            "{} (pid {}",
            printable(&process.name),
            process.pid
        )?;
        if !process.runtime.is_empty() {
            write!(formatter, ", {}", printable(&process.runtime))?;
        }
        let duration = duration.as_secs_f64();
        if total == 0 {
            return if self.profile.losses.lost_samples == 0 {
                writeln!(
                    formatter,
                    "): no samples, the process used no CPU in these {duration:.1} s."
                )
            } else {
                writeln!(
                    formatter,
                    "): no samples, those of these {duration:.1} s were lost."
                )
            };
        }
        writeln!(
            formatter,
            "): {total} {} in {duration:.1} s, {:.2} s of CPU",
            plural(total, "sample", "samples"),
            seconds(total, self.profile.period),
        )
    }

    fn write_table(&self, formatter: &mut fmt::Formatter<'_>, total: u64) -> fmt::Result {
        let period = self.profile.period;
        let rows = hottest(self.profile);
        let shown = &rows[..rows.len().min(ROWS)];
        // As wide as the largest number, which is that of all samples.
        let time_width = format!("{:.2}", seconds(total, period)).len().max(4);
        let number_width = "100.0%".len() + 2 + time_width + 2;
        let function_width = self
            .width
            .saturating_sub(2 * (number_width + 3) + 1)
            .max(MIN_FUNCTION_WIDTH);

        writeln!(
            formatter,
            "\n{:>number_width$}   {:>number_width$}   function",
            "self", "total"
        )?;
        for row in shown {
            for samples in [row.own, row.total] {
                write!(
                    formatter,
                    "{:>5.1}%  {:>time_width$.2} s   ",
                    percent(samples, total),
                    seconds(samples, period)
                )?;
            }
            writeln!(
                formatter,
                "{}",
                self.function_text(row.function, function_width)
            )?;
        }
        match rows.len() - shown.len() {
            0 => Ok(()),
            rest => writeln!(
                formatter,
                "… and {rest} more {}",
                plural(rest as u64, "function", "functions")
            ),
        }
    }

    /// `name  file:line`; what is too wide loses the file's first folders, then the file, then the
    /// end of the name.
    fn function_text(&self, function: FunctionId, width: usize) -> String {
        let function = &self.profile.functions[function.0 as usize];
        let name = printable(function.name.trim());
        let mut place = printable(&function.file).into_owned();
        if place.is_empty() {
            return shortened(&name, width).into_owned();
        }
        if let Some(line) = function.first_line {
            place = format!("{place}:{line}");
        }
        let room = width.saturating_sub(name.width() + 2);
        match shortened_path(&place, room) {
            Some(place) => format!("{name}  {place}"),
            None => shortened(&name, width).into_owned(),
        }
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.profile.total();
        self.write_head(formatter, total)?;
        if total != 0 {
            self.write_table(formatter, total)?;
        }
        let losses = losses::sentences(&self.profile.losses);
        if !losses.is_empty() {
            writeln!(formatter)?;
        }
        for sentence in losses {
            writeln!(formatter, "{sentence}")?;
        }
        Ok(())
    }
}

/// What a function used.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    function: FunctionId,
    /// Samples in which it ran itself.
    own: u64,
    /// Samples in which it was anywhere on the stack, once however often it was there.
    total: u64,
}

/// All functions that were seen, the hottest first.
fn hottest(profile: &Profile) -> Vec<Row> {
    let ids = 0..u32::try_from(profile.functions.len()).unwrap_or(u32::MAX);
    let mut rows: Vec<_> = ids
        .map(|id| Row {
            function: FunctionId(id),
            own: 0,
            total: 0,
        })
        .collect();
    let mut seen = HashSet::new();
    for sample in &profile.samples {
        seen.clear();
        let stack = profile.stacks[sample.stack.0 as usize].iter();
        let functions = stack.map(|id| profile.locations[id.0 as usize].function);
        for (depth, function) in functions.enumerate() {
            let row = &mut rows[function.0 as usize];
            if depth == 0 {
                row.own += sample.count;
            }
            if seen.insert(function) {
                row.total += sample.count;
            }
        }
    }
    rows.retain(|row| row.total != 0);
    rows.sort_by_key(|row| (Reverse((row.own, row.total)), row.function));
    rows
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is shown has three digits, and so many samples nobody takes"
)]
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what is shown has two decimals, and so many samples nobody takes"
)]
fn seconds(samples: u64, period: Duration) -> f64 {
    samples as f64 * period.as_secs_f64()
}

fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// The text, or its beginning and an ellipsis.
fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut used = 1;
    let kept = text.chars().take_while(|character| {
        used += character.width().unwrap_or(0);
        used <= width
    });
    Cow::Owned(kept.chain(['…']).collect())
}

/// The path, or an ellipsis and as many of its last folders as fit; nothing if not even the file's
/// own name fits.
fn shortened_path(path: &str, width: usize) -> Option<Cow<'_, str>> {
    if path.width() <= width {
        return Some(Cow::Borrowed(path));
    }
    path.match_indices('/')
        .map(|(start, _)| &path[start..])
        .find(|rest| rest.width() < width)
        .map(|rest| Cow::Owned(format!("…{rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        encode::support::made_profile,
        profile::{Losses, StackId},
    };

    fn summary(profile: &Profile, width: usize) -> String {
        Summary::new(profile).with_width(width).to_string()
    }

    #[test]
    fn the_hottest_functions_come_first() {
        assert_eq!(
            summary(&made_profile("/srv/app/main.py"), 100),
            "\
python3.12 (pid 4242, CPython 3.12.1): 350 samples in 10.0 s, 3.50 s of CPU

          self            total   function
 42.9%  1.50 s    42.9%  1.50 s   fib  /srv/app/main.py:7
 42.9%  1.50 s    42.9%  1.50 s   loads  /usr/lib/python3.12/json/__init__.py:299
  5.7%  0.20 s     5.7%  0.20 s   Straße.größe_日本  /srv/app/main.py:17
  2.9%  0.10 s     8.6%  0.30 s   Rows.load.<locals>.<lambda>  /srv/app/main.py:14
  2.6%  0.09 s     2.6%  0.09 s   a;b\\n\\u{1b}[31m <c> 9  x;y.py:1
  1.4%  0.05 s    90.0%  3.15 s   main  /srv/app/main.py:3
  0.9%  0.03 s     0.9%  0.03 s   _find_and_load  <frozen importlib._bootstrap>:1349
  0.9%  0.03 s     0.9%  0.03 s   [no Python frames]
  0.0%  0.00 s    90.9%  3.18 s   <module>  /srv/app/main.py:1
  0.0%  0.00 s    45.4%  1.59 s   get  /srv/venv/lib/python3.12/site-packages/req/api.py:62
… and 1 more function

12 samples were lost: the ring buffer was full.
20 stacks were too deep: the frames between the 256 at either end are left out.
3 samples are of threads that ran no Python.
"
        );
    }

    #[test]
    fn the_table_is_no_wider_than_the_terminal() {
        let text = summary(&made_profile("/srv/app/main.py"), 60);
        let table: Vec<_> = text.lines().skip(2).take(11).collect();
        assert!(table.iter().all(|line| line.width() <= 60), "{text}");
        assert!(table[2].ends_with("   loads  …/__init__.py:299"), "{text}");
        assert!(table[4].ends_with("   Rows.load.<locals>.<lamb…"), "{text}");
    }

    #[test]
    fn recursion_counts_once_in_a_stack() {
        let profile = made_profile("");
        let rows = hottest(&profile);
        assert_eq!((rows[0].own, rows[0].total), (150, 150));
        assert!(rows.iter().all(|row| row.total <= profile.total()));
        let own: u64 = rows.iter().map(|row| row.own).sum();
        assert_eq!(own, profile.total());
    }

    #[test]
    fn no_samples_are_explained() {
        let mut profile = made_profile("");
        profile.samples.clear();
        profile.losses = Losses::default();
        assert_eq!(
            summary(&profile, 80),
            "python3.12 (pid 4242, CPython 3.12.1): \
             no samples, the process used no CPU in these 10.0 s.\n"
        );
        profile.losses.lost_samples = 1;
        assert!(summary(&profile, 80).ends_with(
            "no samples, those of these 10.0 s were lost.\n\n\
             1 sample was lost: the ring buffer was full.\n"
        ));
    }

    #[test]
    fn one_sample_is_not_samples() {
        let mut profile = made_profile("");
        profile.samples.truncate(1);
        profile.samples[0].count = 1;
        assert!(summary(&profile, 80).contains("): 1 sample in "));
    }

    #[test]
    fn a_stack_without_frames_is_nobodys() {
        let mut profile = made_profile("");
        profile.stacks[0] = Box::from([]);
        profile.samples.retain(|sample| sample.stack == StackId(0));
        assert!(summary(&profile, 80).contains("120 samples"));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(shortened("日本語", 6), "日本語");
        assert_eq!(shortened("日本語", 5), "日本…");
        assert_eq!(shortened("日本語", 4), "日…");
        assert_eq!(shortened("ab", 1), "…");
    }

    #[test]
    fn a_path_loses_whole_folders() {
        assert_eq!(shortened_path("/a/bc/d.py", 10).unwrap(), "/a/bc/d.py");
        assert_eq!(shortened_path("/a/bc/d.py", 9).unwrap(), "…/bc/d.py");
        assert_eq!(shortened_path("/a/bc/d.py", 8).unwrap(), "…/d.py");
        assert_eq!(shortened_path("/a/bc/d.py", 5), None);
        assert_eq!(shortened_path("<string>", 5), None);
    }

    #[test]
    fn progress_is_told_in_seconds() {
        assert_eq!(elapsed_text(Duration::from_millis(4_256)), "4.2s");
        assert_eq!(elapsed_text(Duration::from_secs(64)), "1m 04s");
    }
}
