//! `agent dump`: the stack of each thread of a process, as soon as there is a proved one.

mod capture;
mod colours;
mod document;
mod frame_text;
mod frames;
mod locals;
mod outside;
mod source_file;
mod source_lines;
mod taken;
mod task_forest;
mod task_text;
mod tasks;
mod text;
mod variables;

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use anyhow::Result;

use self::{colours::Colours, document::Document};
use super::{
    cli::DumpOptions,
    standard_output::{print, print_by},
};
use crate::python::Detector;

/// Takes the stacks of all threads and prints them.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn run(options: &DumpOptions) -> Result<ExitCode> {
    let capture = capture::take(options).await?;
    let mut document = Document::new(&capture, options.frames);
    if options.tasks {
        let detector = Detector::default();
        for process in &mut document.processes {
            (process.tasks, process.tasks_note) = tasks::of_process(&detector, process.pid);
        }
    }
    if options.locals.is_some() {
        locals::add(&mut document, &capture.variables);
    }
    if options.source {
        source_lines::add(&mut document);
    }
    if options.json {
        print_by(|output| {
            serde_json::to_writer_pretty(&mut *output, &document)?;
            writeln!(output)
        })?;
    } else {
        let colours = Colours::of_terminal(io::stdout().is_terminal());
        print(document.text(colours))?;
    }
    Ok(ExitCode::SUCCESS)
}
