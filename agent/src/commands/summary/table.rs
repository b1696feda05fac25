//! The summary of a profile.

use std::{borrow::Cow, fmt};

use console::Term;
use unicode_width::UnicodeWidthStr as _;

use super::{
    rank::{Named, busiest_processes, hottest_functions},
    share::percent,
    states::{gc_text, states_text},
};
use crate::text::{plural, shortened, shortened_path};
use crate::{
    commands::terminal,
    formats::{EncodeOptions, losses},
    profile::{LineNumbers, Process, ProcessIndex, Profile, Unit},
    text::printable,
};

/// Rows of the table of processes, which is shown for several.
const PROCESS_ROWS: usize = 5;
/// Rows of the table of functions.
const FUNCTION_ROWS: usize = 10;
/// Least columns of a function or a process.
pub(crate) const MIN_NAME_WIDTH: usize = 20;

/// The process or the busiest ones, the hottest functions, and what was lost.
#[derive(Debug)]
pub struct Summary<'a> {
    profile: Cow<'a, Profile>,
    width: usize,
    function_rows: usize,
    full_file_names: bool,
}

impl<'a> Summary<'a> {
    /// A summary as wide as standard error.
    #[must_use]
    pub fn new(profile: &'a Profile, options: EncodeOptions) -> Self {
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
        Self {
            profile,
            width: terminal::width(&Term::stderr()),
            function_rows: FUNCTION_ROWS,
            full_file_names: options.full_file_names,
        }
    }

    /// The profile as it is shown: without frames of interpreters unless these are asked for.
    pub(crate) fn shown_profile(&self) -> &Profile {
        &self.profile
    }

    /// The summary with so many functions, without their table for 0.
    #[must_use]
    pub(crate) fn with_functions(self, function_rows: usize) -> Self {
        Self {
            function_rows,
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
                "{subject}: {total} {}{during}, {} {}",
                if kind.is_foreign() {
                    kind.names.sample_types[0].name
                } else {
                    plural(total, "sample", "samples")
                },
                kind.unit.text(self.profile.total_value()),
                kind.words.total,
            )?;
            let lines = [states_text(&self.profile), gc_text(&self.profile)];
            for line in lines.into_iter().flatten() {
                writeln!(formatter, "{line}")?;
            }
            Ok(())
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
        } else {
            let nobody = match &*self.profile.processes {
                [] => format!("no process {}", kind.words.any),
                _ => format!("the process {}", kind.words.none),
            };
            writeln!(
                formatter,
                "{subject}: no samples, {nobody} in these {duration:.1} s."
            )
        }
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

    fn write_functions(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        columns: &Columns,
    ) -> fmt::Result {
        let rows = hottest_functions(&self.profile);
        let shown = &rows[..rows.len().min(self.function_rows)];
        let room = self.width.saturating_sub(2 * (columns.width + 3) + 1);
        let width = name_width(room, self.full_file_names);

        writeln!(
            formatter,
            "\n{:>2$}   {:>2$}   function",
            "self", "total", columns.width
        )?;
        for row in shown {
            writeln!(
                formatter,
                "{}   {}   {}",
                columns.cell(row.own),
                columns.cell(row.total),
                function_text(&row.function, width)
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
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.profile.total();
        self.write_head(formatter, total)?;
        if total != 0 {
            let columns = Columns::new(self.profile.total_value(), self.profile.kind.unit);
            if self.profile.processes.len() > 1 {
                self.write_processes(formatter, &columns)?;
            }
            if self.function_rows != 0 {
                self.write_functions(formatter, &columns)?;
            }
        }
        let losses = losses::sentences(&self.profile.filtered_out, &self.profile.losses);
        if !losses.is_empty() {
            writeln!(formatter)?;
        }
        for sentence in losses {
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
mod tests {
    use super::*;
    use crate::{
        profile::fixtures::{PERIOD_NS, example_processes, example_profile, of_kind, with_waits},
        profile::kinds::{page_faults, wall},
        profile::{FilteredOut, Losses, Sample, StackId, Thread, ThreadIndex},
    };

    fn summary(profile: &Profile, width: usize) -> String {
        Summary::new(profile, EncodeOptions::default())
            .with_width(width)
            .to_string()
    }

    #[test]
    fn a_service_has_no_process_id() {
        let mut profile = example_processes("");
        profile.processes[0].pid = 0;
        profile.processes[0].name = "web".to_owned();
        let text = summary(&profile, 100);
        assert!(text.contains("   web, CPython 3.12.1\n"), "{text}");
        assert!(
            text.contains("   4300   python2.7, CPython 2.7.18\n"),
            "{text}"
        );
        let mut profile = example_profile("");
        profile.processes[0].pid = 0;
        let text = summary(&profile, 100);
        assert!(
            text.starts_with("python3.12, CPython 3.12.1: 400 samples in"),
            "{text}"
        );
    }

    #[test]
    fn the_hottest_functions_come_first() {
        assert_eq!(
            summary(&example_profile("/srv/app/main.py"), 100),
            "\
python3.12 (pid 4242, CPython 3.12.1): 400 samples in 10.0 s, 4.00 s of CPU

          self            total   function
 37.5%  1.50 s    37.5%  1.50 s   fib  /srv/app/main.py:7
 37.5%  1.50 s    37.5%  1.50 s   loads  /usr/lib/python3.12/json/__init__.py:299
  7.5%  0.30 s    12.5%  0.50 s   Rows.load.<locals>.<lambda>  /srv/app/main.py:14
  5.0%  0.20 s     5.0%  0.20 s   Straße.größe_日本  /srv/app/main.py:17
  5.0%  0.20 s     5.0%  0.20 s   ext4_file_write_iter  [ext4]
  2.2%  0.09 s     2.2%  0.09 s   a;b\\n\\u{1b}[31m <c> 9  x;y.py:1
  1.5%  0.06 s     1.5%  0.06 s   memchr::<u8>  _speedups.abi3.so
  1.2%  0.05 s    90.2%  3.61 s   main  /srv/app/main.py:3
  0.8%  0.03 s     0.8%  0.03 s   _find_and_load  <frozen importlib._bootstrap>:1349
  0.8%  0.03 s     0.8%  0.03 s   [no Python frames]
… and 11 more functions

12 samples were lost: the ring buffer was full.
20 stacks were truncated: only the 256 frames at either end are kept.
3 samples are of threads that ran no Python.
7 stacks lack native frames: the stack was not in memory (7).
13 native frames have no name: the file has no symbols (9), JIT code without a perf map (3), the \
kernel hides its addresses (1). For names of the kernel's functions, run agent as root or with \
CAP_SYSLOG, and set the sysctl kernel.kptr_restrict to 0 or 1.
"
        );
    }

    #[test]
    fn events_are_counted() {
        let profile = of_kind(example_profile("/srv/app/main.py"), &page_faults::KIND);
        let text = summary(&profile, 100);
        assert!(
            text.starts_with(
                "\
python3.12 (pid 4242, CPython 3.12.1): 400 samples in 10.0 s, 40400 page faults

          self            total   function
 37.5%   15150    37.5%   15150   fib  /srv/app/main.py:7
"
            ),
            "{text}"
        );
        let mut none = profile;
        none.samples.clear();
        none.losses = Losses::default();
        assert!(summary(&none, 80).ends_with("the process had no page fault in these 10.0 s.\n"));
    }

    #[test]
    fn elapsed_time_is_divided_by_the_states_of_threads() {
        let waits = [(0, "[waiting: lock]"), (6, "[waiting: sleep]")];
        let profile = with_waits(example_profile("/srv/app/main.py"), &waits);
        let mut profile = of_kind(profile, &wall::KIND);
        profile.losses = Losses::default();
        profile.filtered_out.idle_ns = 21_500_000_000;
        let text = summary(&profile, 100);
        assert!(
            text.starts_with(
                "\
python3.12 (pid 4242, CPython 3.12.1): 400 samples in 10.0 s, 4.00 s of elapsed time
2.30 s running, 1.70 s waiting: lock 1.20 s, sleep 0.50 s

          self            total   function
 37.5%  1.50 s    37.5%  1.50 s   fib  /srv/app/main.py:7
 37.5%  1.50 s    37.5%  1.50 s   loads  /usr/lib/python3.12/json/__init__.py:299
"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("\n\nidle threads: 21.50 s left out (--idle shows them)\n"),
            "{text}"
        );
    }

    #[test]
    fn several_processes_have_a_table() {
        let text = summary(&example_processes("/srv/app/main.py"), 100);
        let (processes, functions) = text.split_once("\n\n          self").unwrap();
        assert_eq!(
            processes,
            "\
3 processes: 517 samples in 10.0 s, 5.17 s of CPU

         total    pid   process
 77.4%  4.00 s   4242   python3.12, CPython 3.12.1
 21.3%  1.10 s   4300   python2.7, CPython 2.7.18
  1.4%  0.07 s   4301   #; s\\nh, no Python"
        );
        assert!(functions.contains("Rows.load.<locals>.<lambda>"), "{text}");
    }

    #[test]
    fn many_processes_are_summed_up() {
        let mut profile = example_processes("");
        for tid in 0..40 {
            profile.processes.push(Process {
                pid: 5000 + tid,
                name: "worker".repeat(20),
                ..Process::default()
            });
            profile.threads.push(Thread {
                process: ProcessIndex(3 + tid),
                tid,
                name: String::new(),
            });
            profile.samples.push(Sample {
                stack: StackId(8),
                thread: ThreadIndex(7 + tid),
                count: 1 + u64::from(tid == 39),
                value: (1 + u64::from(tid == 39)) * PERIOD_NS,
            });
        }
        let text = summary(&profile, 60);
        let lines: Vec<_> = text.lines().skip(6).take(4).collect();
        assert_eq!(
            lines,
            [
                "  0.4%  0.02 s   5039   workerworkerworkerworkerworkerwork…",
                "  0.2%  0.01 s   5000   workerworkerworkerworkerworkerwork…",
                "  6.8%  0.38 s          … and 38 more processes",
                "",
            ]
        );
        assert!(lines.iter().all(|line| line.width() < 60));
    }

    #[test]
    fn the_table_is_no_wider_than_the_terminal() {
        let text = summary(&example_profile("/srv/app/main.py"), 60);
        let table: Vec<_> = text.lines().skip(2).take(11).collect();
        assert!(table.iter().all(|line| line.width() <= 60), "{text}");
        assert!(table[2].ends_with("   loads  …/__init__.py:299"), "{text}");
        assert!(table[3].ends_with("   Rows.load.<locals>.<lamb…"), "{text}");
    }

    #[test]
    fn lines_can_be_left_out_and_paths_be_whole() {
        let file = "/srv/a/directory/with/a/long/name/that/does/not/fit/main.py";
        let profile = example_profile(file);
        let text = |options| Summary::new(&profile, options).with_width(60).to_string();
        let plain = text(EncodeOptions::default());
        assert!(plain.contains("  …/") && !plain.contains(file), "{plain}");
        let chosen = text(EncodeOptions {
            line_numbers: LineNumbers::Hidden,
            full_file_names: true,
            ..EncodeOptions::default()
        });
        assert!(chosen.contains(&format!("fib  {file}\n")), "{chosen}");
        assert!(!chosen.contains(".py:"), "{chosen}");
    }

    #[test]
    fn no_samples_are_explained() {
        let mut profile = example_profile("");
        profile.samples.clear();
        profile.losses = Losses::default();
        assert_eq!(
            summary(&profile, 80),
            "python3.12 (pid 4242, CPython 3.12.1): \
             no samples, the process used no CPU in these 10.0 s.\n"
        );
        profile.filtered_out.without_gil = 1;
        assert!(summary(&profile, 80).ends_with(
            "no samples, those of these 10.0 s were not asked for.\n\n\
             1 sample is of threads that did not hold the GIL, and filtered out.\n"
        ));
        profile.filtered_out = FilteredOut::default();
        profile.losses.lost_samples = 1;
        assert!(summary(&profile, 80).ends_with(
            "no samples, those of these 10.0 s were lost.\n\n\
             1 sample was lost: the ring buffer was full.\n"
        ));
        profile.losses = Losses::default();
        profile.processes.clear();
        assert_eq!(
            summary(&profile, 80),
            "all processes: no samples, no process used any CPU in these 10.0 s.\n"
        );
    }

    #[test]
    fn one_sample_is_not_samples() {
        let mut profile = example_profile("");
        profile.samples.truncate(1);
        profile.samples[0].count = 1;
        assert!(summary(&profile, 80).contains("): 1 sample in "));
    }

    #[test]
    fn a_stack_without_frames_is_nobodys() {
        let mut profile = example_profile("");
        profile.stacks[0] = Box::from([]);
        profile.samples.retain(|sample| sample.stack == StackId(0));
        assert!(summary(&profile, 80).contains("120 samples"));
    }
}
