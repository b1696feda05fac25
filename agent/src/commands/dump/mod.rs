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
use tokio::time::{Instant, sleep_until};

use self::{
    document::Document,
    show::{Form, show},
};
use super::{
    cli::{CoreOptions, DumpOptions},
    standard_output::Delivery,
};
use crate::{python::Detector, session::Signals};

/// Takes the stacks of all threads and prints them, as often as is wanted or until a signal.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn run(options: &DumpOptions) -> Result<ExitCode> {
    if options.repeat == 1 {
        show(&take(options).await?, options.json.into())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::to_end()?;
    for nth in 1..=options.repeat {
        let next = Instant::now() + options.interval;
        let document = take(options).await?;
        let of = options.repeat;
        let form = if options.json {
            Form::JsonLine
        } else {
            Form::NumberedText { nth, of }
        };
        if show(&document, form)? == Delivery::Closed || nth == of {
            break;
        }
        tokio::select! {
            biased;
            () = signals.arrived() => break,
            () = sleep_until(next) => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes the stacks of all threads.
async fn take(options: &DumpOptions) -> Result<Document> {
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
    Ok(document)
}

/// Prints the stacks of a core dump.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) fn run_core(options: &CoreOptions) -> Result<ExitCode> {
    core::run(options)
}
