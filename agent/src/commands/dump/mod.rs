//! `agent dump`: the stack of each thread of a process, as soon as there is a proved one, or of its core dump.

mod capture;
mod colours;
mod core;
mod document;
mod frame_text;
mod frames;
mod locals;
mod outside;
mod show;
mod source_file;
mod source_lines;
mod source_root;
mod taken;
mod task_forest;
mod task_text;
mod tasks;
mod text;
mod variables;

use std::process::ExitCode;

use anyhow::Result;

use self::{document::Document, show::show};
use super::cli::{CoreOptions, DumpOptions};
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
    show(&document, options.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the stacks of a core dump.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) fn run_core(options: &CoreOptions) -> Result<ExitCode> {
    core::run(options)
}
