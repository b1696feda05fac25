//! `agent dump`: the stack of each thread of a process, as soon as there is a proved one, or of its core dump.

mod capture;
mod colours;
mod core;
mod document;
mod frame_text;
mod frames;
mod identities;
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
use tokio::time::Instant;

use self::{
    capture::Captures,
    document::Document,
    show::{Form, show},
    taken::Capture,
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
    let mut captures = Captures::new(options);
    if options.repeat == 1 {
        let document = document(options, &captures.next().await?);
        show(&document, options.json.into())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut signals = Signals::to_end()?;
    for nth in 1..=options.repeat {
        let next = Instant::now() + options.interval;
        let document = document(options, &captures.next().await?);
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
            () = captures.rest_until(next) => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is shown of the stacks of all threads.
fn document(options: &DumpOptions, capture: &Capture) -> Document {
    let mut document = Document::new(capture, options.frames);
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
    document
}

/// Prints the stacks of a core dump.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) fn run_core(options: &CoreOptions) -> Result<ExitCode> {
    core::run(options)
}
