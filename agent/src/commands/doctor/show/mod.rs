//! The report as text.
//!
//! Invariant: names and paths of another process cannot steer the terminal.

mod native;
pub(super) mod parts;
pub(super) mod rows;

use std::fmt;

use self::{
    parts::{write_left_out, write_requirements},
    rows::{WIDTH, line, path, wrapped},
};
use super::{About, Report, Threads, dumps::WITHOUT_PROGRAMS};
use crate::{
    python::{
        self, Interpreter,
        inspect::Flavour,
        layouts::{LayoutSource, RejectedSource},
        remote::tasks::TaskLocation,
    },
    text::{printable, with_causes},
};

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "System")?;
        write_requirements(formatter, &self.requirements)?;
        if let Ok(about) = &self.process {
            writeln!(formatter, "Process {}", self.pid)?;
            write_process(formatter, about)?;
        }
        match &self.python {
            Some(Ok(python)) => {
                writeln!(formatter, "Interpreter")?;
                write_interpreter(formatter, python)?;
                if let Some(threads) = &self.threads {
                    write_threads(formatter, threads)?;
                }
            }
            Some(Err(python::Error::Unsupported { found, .. })) => {
                writeln!(formatter, "Interpreter")?;
                line(formatter, "build", &flavour(found.flavour))?;
                write_rejected_sources(formatter, &found.rejected_sources)?;
            }
            Some(Err(_)) | None => {}
        }
        self.write_native(formatter)?;
        write_left_out(formatter, &self.left_out)?;
        self.write_conclusion(formatter)
    }
}

impl Report {
    fn write_native(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = &self.native else {
            return Ok(());
        };
        writeln!(formatter, "Native frames")?;
        match code {
            Ok(code) => native::write_code(formatter, code)?,
            Err(error) => line(
                formatter,
                "unwinding",
                &format!("unknown: {}", with_causes(error)),
            )?,
        }
        match &self.measured {
            Some(Ok(measured)) => native::write_measured(formatter, measured),
            Some(Err(_)) | None => Ok(()),
        }
    }

    fn write_conclusion(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let obstacles = self.obstacles();
        if obstacles.is_empty() {
            writeln!(formatter, "It can be profiled: agent --pid {}", self.pid)?;
            if let Some(Ok(measured)) = &self.measured {
                for (event, reason) in &measured.refused_events {
                    let text = format!("But the event {event} is not available: {reason}");
                    for row in wrapped(&printable(&text), WIDTH) {
                        writeln!(formatter, "{row}")?;
                    }
                }
            }
            let is_idle =
                matches!(&self.python, Some(Ok(python)) if python.is_initialised == Some(false));
            if is_idle {
                writeln!(
                    formatter,
                    "But it does not run Python at present: samples have no Python frames until \
                     it does."
                )?;
            }
            if let Some(Err(error)) = &self.python {
                let text = format!("There are no Python frames: {error}");
                for row in wrapped(&printable(&text), WIDTH) {
                    writeln!(formatter, "{row}")?;
                }
            }
        } else {
            writeln!(formatter, "It cannot be profiled:")?;
            for obstacle in obstacles {
                writeln!(formatter, "  - {}", printable(&obstacle))?;
            }
            if self.is_dumpable() {
                writeln!(
                    formatter,
                    "But agent dump --pid {} {WITHOUT_PROGRAMS}",
                    self.pid
                )?;
            }
        }
        for (pid, version) in &self.descendants {
            writeln!(
                formatter,
                "But it has started process {pid}, which runs CPython {version}: try --pid {pid}"
            )?;
        }
        Ok(())
    }
}

fn write_threads(
    formatter: &mut fmt::Formatter<'_>,
    threads: &anyhow::Result<Threads>,
) -> fmt::Result {
    let text = match threads {
        Ok(Threads {
            complete,
            truncated: 0,
            frames,
        }) => {
            format!("{complete} with {frames} frames, read from outside: all stacks are complete")
        }
        Ok(Threads {
            complete,
            truncated,
            ..
        }) => format!(
            "{complete} with complete stacks, {truncated} truncated, read from outside (a running \
             thread may change meanwhile)"
        ),
        Err(error) => with_causes(error),
    };
    line(formatter, "threads", &text)
}

fn write_process(formatter: &mut fmt::Formatter<'_>, about: &About) -> fmt::Result {
    line(formatter, "name", &about.name)?;
    line(formatter, "executable", &path(&about.executable))?;
    if let [_, inner @ ..] = about.namespace_pids.as_slice()
        && !inner.is_empty()
    {
        let ids: Vec<String> = inner.iter().map(ToString::to_string).collect();
        let ids = format!("{} in PID namespaces of its own", ids.join(", "));
        line(formatter, "ids", &ids)?;
    }
    let files = match about.has_own_mounts {
        Some(true) => "its own, in another mount namespace, as in a container",
        Some(false) => "those of this system",
        None => "unknown: its mount namespace may not be read",
    };
    line(formatter, "files", files)
}

fn write_interpreter(formatter: &mut fmt::Formatter<'_>, python: &Interpreter) -> fmt::Result {
    let is_executable = python
        .images
        .first()
        .is_some_and(|first| first.path == python.image);
    let kind = if is_executable {
        "the executable itself"
    } else {
        "a shared library"
    };
    line(formatter, "version", &format!("CPython {}", python.version))?;
    line(formatter, "build", &flavour(python.flavour))?;
    line(
        formatter,
        "image",
        &format!("{}, {kind}", path(&python.image)),
    )?;
    line(
        formatter,
        "layout",
        &format!("from {}", source(python.layout_source)),
    )?;
    write_rejected_sources(formatter, &python.rejected_sources)?;
    let head = format!("list of interpreters at {:#x}", python.interpreters_head);
    line(formatter, "addresses", &head)?;
    if let Some(holder) = python.gil_holder {
        line(formatter, "", &format!("holder of the GIL at {holder:#x}"))?;
    }
    if python.raise_site.is_none() {
        let text = "cannot be recorded: its file has no symbol PyTraceBack_Here";
        line(formatter, "exceptions", text)?;
    }
    write_allocators(formatter, python)?;
    if let Err(error) = TaskLocation::of(python) {
        line(formatter, "tasks", &error.to_string())?;
    }
    line(formatter, "state", initialised(python.is_initialised))?;
    for other in &python.others {
        let text = format!(
            "CPython {} in {}, {}",
            other.version,
            path(&other.image),
            initialised(other.is_initialised)
        );
        line(formatter, "also loaded", &text)?;
    }
    Ok(())
}

/// What is not recorded of allocations.
fn write_allocators(formatter: &mut fmt::Formatter<'_>, python: &Interpreter) -> fmt::Result {
    let text = if python.allocators.is_empty() {
        "cannot be recorded: none of its files is a C library or an allocator that is known"
    } else if python.flavour.is_free_threaded {
        "only those of native libraries: a free-threaded build allocates its objects by itself"
    } else {
        ""
    };
    if !text.is_empty() {
        line(formatter, "allocations", text)?;
    }
    let announcing = python.announced.iter();
    for file in announcing.filter_map(|site| site.mapping.file.as_ref()) {
        let path = file.path.display();
        let text = format!("{path} announces its own by otel_memory:alloc (from Linux 5.15 on)");
        line(formatter, "allocations", &text)?;
    }
    Ok(())
}

fn write_rejected_sources(
    formatter: &mut fmt::Formatter<'_>,
    rejected_sources: &[RejectedSource],
) -> fmt::Result {
    for RejectedSource {
        source: it,
        reason: why,
    } in rejected_sources
    {
        line(formatter, "", &format!("not from {}: {why}", source(*it)))?;
    }
    Ok(())
}

fn flavour(flavour: Flavour) -> String {
    let purpose = if flavour.is_debug {
        "for debugging"
    } else {
        "for release"
    };
    let lock = if flavour.is_free_threaded {
        "free-threaded"
    } else {
        "with the global lock"
    };
    format!("{purpose}, {lock}")
}

fn source(source: LayoutSource) -> &'static str {
    match source {
        LayoutSource::DebugOffsets => "its own debug offsets",
        LayoutSource::Table => "the table of its version",
        LayoutSource::Dwarf => "its debugging information",
    }
}

fn initialised(is_initialised: Option<bool>) -> &'static str {
    match is_initialised {
        Some(true) => "initialised",
        Some(false) => "not initialised",
        None => "unknown: its memory may not be read",
    }
}
