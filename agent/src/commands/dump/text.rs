//! The stacks as text, the innermost function first, as `py-spy dump` has it.

use std::{fmt, time::Duration};

use super::{
    colours::Colours,
    document::{Document, DumpedCore, DumpedProcess, DumpedThread, State},
    frame_text::write_frame,
    task_text,
};
use crate::{
    commands::deadlock::sentence,
    text::{plural, printable, shortened},
};

/// Columns of the name of a thread and of a command line.
const NAME_WIDTH: usize = 60;
const COMMAND_WIDTH: usize = 200;

/// Most files that are named because they may have changed.
const MAX_CHANGED: usize = 3;

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

    /// For which signal the core dump was written, if for one, and which thread has received it.
    fn signal(&self) -> Option<String> {
        let core = self.core.as_ref()?;
        let signal = core.signal.as_ref()?;
        let access = core.signal_address.as_ref();
        let access = access.map_or(String::new(), |address| format!(" at address {address}"));
        let thread = core.signal_tid.map(|tid| self.thread_text(tid));
        let thread = thread.map_or(String::new(), |thread| format!(" in thread {thread}"));
        Some(format!("Killed by {signal}{access}{thread}"))
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
        let top: Vec<_> = document
            .signal()
            .into_iter()
            .chain(document.deadlocks())
            .collect();
        for line in &top {
            writeln!(formatter, "{}{line}{}", colours.bold(), colours.end())?;
        }
        for (nth, process) in document.processes.iter().enumerate() {
            if nth > 0 || !top.is_empty() {
                writeln!(formatter)?;
            }
            write_head(formatter, process)?;
            if nth == 0 {
                if let Some(core) = &document.core {
                    write_core(formatter, core)?;
                } else {
                    let spread = document.spread_ms;
                    writeln!(formatter, "Stacks were taken within {spread:.1} ms")?;
                }
                if let Some(note) = &document.note {
                    writeln!(formatter, "{}", printable(note))?;
                }
            }
            let since = match document.core {
                Some(_) => "the core dump was written",
                None => "the process was started",
            };
            write_changed(formatter, &process.changed_files, since)?;
            for thread in &process.threads {
                self.write_thread(formatter, thread)?;
            }
            task_text::write(formatter, process, *colours)?;
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
        if let Some(note) = &thread.locals_note {
            writeln!(formatter, "    locals: {}", printable(note))?;
        }
        for frame in frames {
            write_frame(formatter, frame, "    ", colours)?;
        }
        Ok(())
    }

    /// What a thread did.
    fn state(&self, thread: &DumpedThread) -> String {
        let core = self.document.core.as_ref();
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
        let received = core.filter(|core| core.signal_tid == Some(thread.tid));
        let signal = received.and_then(|core| core.signal.as_ref());
        let mut state = match (thread.state, thread.wait) {
            (State::Running, _) => match signal {
                Some(signal) => format!("killed by {signal}"),
                None => "running".to_owned(),
            },
            (State::Runnable, _) => "runnable".to_owned(),
            (State::Waiting, wait) => self.wait(thread, wait.unwrap_or_default()),
        };
        state += &waited(thread.waiting_ms);
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
            ("stop-the-world", Some(stopper), _) => {
                format!(
                    "stopped by {} (stop-the-world)",
                    self.document.thread_text(stopper)
                )
            }
            ("lock", _, Some(lock)) => {
                let holder = thread.lock_holder.map(|tid| self.document.thread_text(tid));
                let holder = holder.map_or(String::new(), |holder| format!(", held by {holder}"));
                waiting_for_lock(lock) + &holder
            }
            ("stopped", ..) => "stopped".to_owned(),
            ("other", ..) => "waiting".to_owned(),
            _ => format!("waiting: {wait}"),
        }
    }
}

/// That a thread waits for a lock, by its name: `Pool.jobs (Queue at 0x7f…)`, or `RLock at 0x7f…` where no variable is
/// known that refers to it.
fn waiting_for_lock(name: &str) -> String {
    let article = if name.ends_with(')') {
        "the lock"
    } else {
        "the"
    };
    format!("waiting for {article} {}", printable(name))
}

/// For how long a thread has waited, where that is seconds.
fn waited(milliseconds: Option<f64>) -> String {
    let time = Duration::try_from_secs_f64(milliseconds.unwrap_or(0.0) / 1e3).unwrap_or_default();
    match time.as_secs() {
        0 => String::new(),
        seconds => {
            let time = humantime::format_duration(Duration::from_secs(seconds));
            format!(" for {time}")
        }
    }
}

/// Writes the lines about a process.
fn write_head(formatter: &mut fmt::Formatter<'_>, process: &DumpedProcess) -> fmt::Result {
    let command = process.command_line.as_deref().filter(|it| !it.is_empty());
    let command = printable(command.unwrap_or(&process.name));
    let command = shortened(&command, COMMAND_WIDTH);
    writeln!(formatter, "Process {}: {command}", process.pid)?;
    if let Some(runtime) = &process.runtime {
        write!(formatter, "{} ", printable(runtime))?;
    }
    let count = process.threads.len() as u64;
    let threads = plural(count, "thread", "threads");
    let executable = printable(&process.executable);
    write!(formatter, "({executable}); {count} {threads}")?;
    let without = process.threads.iter().filter(|it| it.taken.is_none());
    match without.count() {
        0 => {}
        without => write!(formatter, ", {without} without a proved stack")?,
    }
    if process.stopped {
        write!(formatter, "; the process is stopped")?;
    }
    writeln!(formatter)
}

/// Writes from which core dump all is, and what is missing.
fn write_core(formatter: &mut fmt::Formatter<'_>, core: &DumpedCore) -> fmt::Result {
    writeln!(formatter, "From the core dump {}", printable(&core.file))?;
    if let Some(missing) = &core.missing {
        writeln!(formatter, "Missing: {}", printable(missing))?;
    }
    Ok(())
}

/// Writes which source files may be other ones by now, if any.
fn write_changed(formatter: &mut fmt::Formatter<'_>, files: &[String], since: &str) -> fmt::Result {
    if files.is_empty() {
        return Ok(());
    }
    let shown = &files[..files.len().min(MAX_CHANGED)];
    let shown: Vec<_> = shown.iter().map(|file| printable(file)).collect();
    write!(
        formatter,
        "Changed since {since}, so source lines may be wrong: {}",
        shown.join(", ")
    )?;
    match files.len() - shown.len() {
        0 => writeln!(formatter),
        more => writeln!(formatter, " and {more} more"),
    }
}

fn name_text(name: &str) -> String {
    let name = printable(name).replace('"', "\\\"");
    shortened(&name, NAME_WIDTH).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            document::{Taken, Waiter},
            frames::{DumpedFrame, DumpedKind, DumpedVariables},
        },
        *,
    };

    fn frame(kind: DumpedKind, function: Option<&str>, executable: Option<&str>) -> DumpedFrame {
        DumpedFrame {
            kind,
            function: function.map(str::to_owned),
            file: (kind == DumpedKind::Python).then(|| "app.py".to_owned()),
            line: (kind == DumpedKind::Python).then_some(7),
            first_line: None,
            source: (kind == DumpedKind::Python).then(|| "return\t\u{1b} 7".to_owned()),
            executable: executable.map(str::to_owned),
            address: executable.map(|_| "0x1b".to_owned()),
            inlined: false,
            variables: DumpedVariables::default(),
        }
    }

    fn thread(tid: u32, name: &str, wait: Option<&'static str>) -> DumpedThread {
        DumpedThread {
            tid,
            name: name.to_owned(),
            state: wait.map_or(State::Running, |_| State::Waiting),
            wait,
            waiting_ms: wait.map(|_| 900.0),
            lock: None,
            lock_holder: None,
            idle: false,
            holds_gil: Some(false),
            gil_holder: None,
            collects_garbage: false,
            taken: Some(Taken::Read),
            frames: Some(Vec::new()),
            locals_note: None,
        }
    }

    fn document() -> Document {
        let frames = vec![
            frame(DumpedKind::Native, Some("read"), Some("libc.so.6")),
            frame(DumpedKind::Native, None, Some("libz.so.1")),
            frame(DumpedKind::Native, None, Some("[jit]")),
            frame(DumpedKind::Python, Some("Box.load"), None),
            frame(DumpedKind::Marker, Some("[frames left out]"), None),
        ];
        let threads = vec![
            DumpedThread {
                holds_gil: Some(true),
                collects_garbage: true,
                frames: Some(frames),
                ..thread(7, "MainThread", None)
            },
            DumpedThread {
                gil_holder: Some(7),
                ..thread(8, "a\u{1b}\"b", Some("gil"))
            },
            DumpedThread {
                lock: Some("Pool.jobs (Queue at 0x7f00)".to_owned()),
                idle: true,
                waiting_ms: Some(61_500.0),
                ..thread(9, "worker", Some("lock"))
            },
            DumpedThread {
                taken: None,
                frames: None,
                holds_gil: None,
                ..thread(10, "quick", Some("sleep"))
            },
        ];
        let waiters = [(8, "one"), (9, "two")].map(|(tid, lock)| Waiter {
            tid,
            lock: lock.to_owned(),
        });
        Document {
            schema: 1,
            time: Some("2026-11-27T12:00:00.250Z".to_owned()),
            spread_ms: 1.25,
            note: None,
            core: None,
            duration_ms: 500.3,
            deadlocks: vec![waiters.into()],
            processes: vec![DumpedProcess {
                pid: 7,
                parent: None,
                name: "python".to_owned(),
                command_line: Some("python app.py".to_owned()),
                executable: "/usr/bin/python3.12".to_owned(),
                runtime: Some("CPython 3.12.1".to_owned()),
                stopped: true,
                changed_files: ["a", "b\n", "c", "d"].map(|it| format!("{it}.py")).into(),
                threads,
                tasks: None,
                tasks_note: None,
            }],
        }
    }

    #[test]
    fn who_has_stopped_a_thread_is_said() {
        let document = document();
        let stopped = DumpedThread {
            gil_holder: Some(7),
            ..thread(11, "stopped", Some("stop-the-world"))
        };
        let stops = thread(7, "MainThread", Some("stop-the-world"));
        let text = document.text(Colours::NONE);
        assert_eq!(
            text.state(&stopped),
            "stopped by 7 \"MainThread\" (stop-the-world)"
        );
        assert_eq!(text.state(&stops), "waiting: stop-the-world");
    }

    #[test]
    fn a_thread_that_is_stopped_waits_for_nothing() {
        let state = document()
            .text(Colours::NONE)
            .state(&thread(11, "stopped", Some("stopped")));
        assert_eq!(state, "stopped");
    }

    #[test]
    fn stacks_are_as_in_py_spy() {
        let text = document().text(Colours::NONE).to_string();
        assert_eq!(
            text,
            "\
Deadlock: 8 \"a\\u{1b}\\\"b\" waits for one, held by 9 \"worker\", which waits for two, held by 8 \"a\\u{1b}\\\"b\"

Process 7: python app.py
CPython 3.12.1 (/usr/bin/python3.12); 4 threads, 1 without a proved stack; the process is stopped
Stacks were taken within 1.2 ms
Changed since the process was started, so source lines may be wrong: a.py, b\\n.py, c.py and 1 more

Thread 7 \"MainThread\": running, holds the GIL, collects garbage
    read (libc.so.6)
    libz.so.1+0x1b
    [jit]
    Box.load (app.py:7)
        return \\u{1b} 7
    [frames left out]

Thread 8 \"a\\u{1b}\\\"b\": waiting for the GIL, held by 7 \"MainThread\"

Thread 9 \"worker\": waiting for the lock Pool.jobs (Queue at 0x7f00) for 1m 1s (idle)

Thread 10 \"quick\": no stack was proved in 500 ms; last seen waiting
"
        );
    }

    #[test]
    fn who_holds_a_lock_is_said() {
        let document = document();
        let waiting = DumpedThread {
            lock: Some("Bank.first (RLock at 0x7f00)".to_owned()),
            lock_holder: Some(7),
            ..thread(11, "waiting", Some("lock"))
        };
        assert_eq!(
            document.text(Colours::NONE).state(&waiting),
            "waiting for the lock Bank.first (RLock at 0x7f00), held by 7 \"MainThread\""
        );
    }

    #[test]
    fn a_lock_without_a_name_is_named_by_its_class() {
        let wait = waiting_for_lock("lock at 0x7f00");
        assert_eq!(wait, "waiting for the lock at 0x7f00");
    }

    #[test]
    fn colours_change_no_text() {
        let document = document();
        let mut text = document.text(Colours::ALL).to_string();
        assert!(
            text.contains("\u{1b}[2mread (libc.so.6)\u{1b}[0m"),
            "{text}"
        );
        assert!(text.contains("    Box.load (app.py:7)\n"), "{text}");
        for code in ["\u{1b}[1m", "\u{1b}[2m", "\u{1b}[0m"] {
            text = text.replace(code, "");
        }
        assert_eq!(text, document.text(Colours::NONE).to_string());
    }
}
