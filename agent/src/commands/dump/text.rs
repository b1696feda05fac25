//! The stacks as text, the innermost function first, as `py-spy dump` has it.

use std::{env, fmt};

use super::{
    document::{Document, DumpedProcess, DumpedThread, State},
    frames::{DumpedFrame, DumpedKind},
};
use crate::{
    commands::deadlock::sentence,
    text::{plural, printable, shortened},
};

/// Columns of the name of a thread and of a command line.
const NAME_WIDTH: usize = 60;
const COMMAND_WIDTH: usize = 200;

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colours(bool);

impl Colours {
    /// On a terminal, unless the environment variable `NO_COLOR` says otherwise.
    pub(super) fn of_terminal(is_terminal: bool) -> Self {
        let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(is_terminal && !is_unwanted)
    }

    fn bold(self) -> &'static str {
        if self.0 { "\u{1b}[1m" } else { "" }
    }

    fn dim(self) -> &'static str {
        if self.0 { "\u{1b}[2m" } else { "" }
    }

    fn end(self) -> &'static str {
        if self.0 { "\u{1b}[0m" } else { "" }
    }
}

/// Stacks as text.
pub(super) struct Text<'a> {
    document: &'a Document,
    colours: Colours,
}

impl Document {
    pub(super) fn text(&self, colours: Colours) -> Text<'_> {
        Text {
            document: self,
            colours,
        }
    }

    /// The name and the id of a thread.
    fn thread_text(&self, tid: u32) -> String {
        let threads = self.processes.iter().flat_map(|process| &process.threads);
        let mut named = threads.filter(|thread| thread.tid == tid);
        let name = named.next().map(|thread| name_text(&thread.name));
        format!("{tid} \"{}\"", name.unwrap_or_default())
    }

    /// What each thread of a deadlock waits for, and who holds that.
    fn deadlocks(&self) -> impl Iterator<Item = String> {
        self.deadlocks.iter().map(|threads| {
            let waiters = threads.iter();
            let waiters = waiters.map(|it| (self.thread_text(it.tid), &*it.lock));
            sentence(&waiters.collect::<Vec<_>>())
        })
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { document, colours } = self;
        for deadlock in document.deadlocks() {
            writeln!(formatter, "{}{deadlock}{}", colours.bold(), colours.end())?;
        }
        for (nth, process) in document.processes.iter().enumerate() {
            if nth > 0 || !document.deadlocks.is_empty() {
                writeln!(formatter)?;
            }
            writeln!(formatter, "{}", head(process))?;
            if nth == 0 {
                let spread = document.spread_ms;
                writeln!(formatter, "Stacks were taken within {spread:.1} ms")?;
            }
            for thread in &process.threads {
                self.write_thread(formatter, thread)?;
            }
        }
        Ok(())
    }
}

impl Text<'_> {
    fn write_thread(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        thread: &DumpedThread,
    ) -> fmt::Result {
        let colours = self.colours;
        writeln!(
            formatter,
            "\n{}Thread {} \"{}\"{}: {}",
            colours.bold(),
            thread.tid,
            name_text(&thread.name),
            colours.end(),
            self.state(thread),
        )?;
        let Some(frames) = &thread.frames else {
            return Ok(());
        };
        for frame in frames {
            let text = frame_text(frame);
            if frame.kind == DumpedKind::Python {
                writeln!(formatter, "    {text}")?;
            } else {
                writeln!(formatter, "    {}{text}{}", colours.dim(), colours.end())?;
            }
        }
        Ok(())
    }

    /// What a thread did.
    fn state(&self, thread: &DumpedThread) -> String {
        if thread.taken.is_none() {
            let seen = match thread.state {
                State::Running => "running",
                State::Runnable => "runnable",
                State::Waiting => "waiting",
            };
            return format!(
                "no stack was proved in {:.0} ms; last seen {seen}",
                self.document.duration_ms
            );
        }
        let mut state = match (thread.state, thread.wait) {
            (State::Running, _) => "running".to_owned(),
            (State::Runnable, _) => "runnable".to_owned(),
            (State::Waiting, wait) => self.wait(thread, wait.unwrap_or_default()),
        };
        if thread.holds_gil == Some(true) {
            state += ", holds the GIL";
        }
        if thread.collects_garbage {
            state += ", collects garbage";
        }
        if thread.idle {
            state += " (idle)";
        }
        state
    }

    fn wait(&self, thread: &DumpedThread, wait: &str) -> String {
        match (wait, thread.gil_holder, &thread.lock) {
            ("gil", Some(holder), _) => {
                let holder = self.document.thread_text(holder);
                format!("waiting for the GIL, held by {holder}")
            }
            ("gil", None, _) => "waiting for the GIL".to_owned(),
            ("lock", _, Some(lock)) => format!("waiting for the lock {}", printable(lock)),
            ("other", ..) => "waiting".to_owned(),
            _ => format!("waiting: {wait}"),
        }
    }
}

/// The lines about a process.
fn head(process: &DumpedProcess) -> String {
    let command = process.command_line.as_deref().filter(|it| !it.is_empty());
    let command = printable(command.unwrap_or(&process.name));
    let mut text = format!(
        "Process {}: {}\n",
        process.pid,
        shortened(&command, COMMAND_WIDTH)
    );
    if let Some(runtime) = &process.runtime {
        text += &format!("{} ", printable(runtime));
    }
    text += &format!("({}); ", printable(&process.executable));
    let count = process.threads.len() as u64;
    text += &format!("{count} {}", plural(count, "thread", "threads"));
    let without = process.threads.iter();
    let without = without.filter(|it| it.taken.is_none()).count();
    if without > 0 {
        text += &format!(", {without} without a proved stack");
    }
    if process.stopped {
        text += "; the process is stopped";
    }
    text
}

fn name_text(name: &str) -> String {
    let name = printable(name).replace('"', "\\\"");
    shortened(&name, NAME_WIDTH).into_owned()
}

/// For example `fib (app.py:7)` or `list_sort (python3.12)`.
fn frame_text(frame: &DumpedFrame) -> String {
    let executable = printable(frame.executable.as_deref().unwrap_or("?"));
    let Some(function) = frame.function.as_deref() else {
        let address = frame.address.as_deref().unwrap_or("0x0");
        return match &*executable {
            "[jit]" => executable.into_owned(),
            executable => format!("{executable}+{address}"),
        };
    };
    let function = printable(function);
    match (frame.kind, &frame.file, frame.line) {
        (DumpedKind::Marker, ..) => function.into_owned(),
        (DumpedKind::Python, Some(file), Some(line)) => {
            format!("{function} ({}:{line})", printable(file))
        }
        (DumpedKind::Python, Some(file), None) => format!("{function} ({})", printable(file)),
        (DumpedKind::Python, None, _) => function.into_owned(),
        _ if function == executable => function.into_owned(),
        (DumpedKind::Native | DumpedKind::Kernel, ..) => format!("{function} ({executable})"),
    }
}
