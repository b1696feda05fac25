//! `agent dump`: the stack of each thread of a process, as soon as there is a proved one.

mod capture;
mod document;
mod frames;
mod text;

use std::{
    io::{self, BufWriter, IsTerminal as _, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result};

use self::{document::Document, text::Colours};
use super::cli::DumpOptions;

/// Takes the stacks of all threads and prints them.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn run(options: &DumpOptions) -> Result<ExitCode> {
    let capture = capture::take(options).await?;
    let document = Document::new(&capture, options.frames);
    let mut output = BufWriter::new(io::stdout().lock());
    let written = if options.json {
        serde_json::to_writer_pretty(&mut output, &document)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(output))
    } else {
        let colours = Colours::of_terminal(io::stdout().is_terminal());
        write!(output, "{}", document.text(colours))
    };
    let written = written.and_then(|()| output.flush());
    match written {
        // `agent dump | head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        result => result.context("cannot write the stacks")?,
    }
    Ok(ExitCode::SUCCESS)
}
