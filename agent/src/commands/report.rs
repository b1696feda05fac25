//! `agent report`: stored profiles, listed or merged into one.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Result;

use crate::{
    commands::{
        cli::{ReportOptions, ReportOutput},
        diff,
        output::Output,
        standard_output::print,
        summary::Summary,
    },
    formats::encode,
    store::{Merged, Selection, SkippedFiles, Store},
    text::plural,
};

/// Lists or merges the profiles of a folder, or compares two; `default_folder` is the folder if none is given.
///
/// # Errors
///
/// One sentence that says what to do.
pub fn run(options: &ReportOptions, default_folder: &Path) -> Result<ExitCode> {
    if let Some(profiles) = &options.diff {
        return diff::run(profiles, &options.selection);
    }
    let store = Store::open(options.folder.as_deref().unwrap_or(default_folder))?;
    match &options.output {
        Some(output) => merge(&store, &options.selection, output)?,
        None => list(&store, &options.selection)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(store: &Store, selection: &Selection) -> Result<()> {
    let listing = store.list(selection)?;
    print_skipped(&listing.skipped);
    print(listing)?;
    Ok(())
}

fn merge(store: &Store, selection: &Selection, wanted: &ReportOutput) -> Result<()> {
    // The id is for default names, and this output has a name.
    let output = Output::prepare(&wanted.destination, wanted.format, 0, None)?;
    let Merged {
        profile,
        files,
        times,
        skipped,
    } = store.merge(selection)?;
    let mut bytes = Vec::new();
    encode(&profile, wanted.format, wanted.encoding(), &mut bytes)?;
    let written = output.commit(&bytes)?;

    print_skipped(&skipped);
    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the profile is written all the same.
    let _ = writeln!(
        stderr,
        "{files} {} from {} to {}",
        plural(files, "profile", "profiles"),
        humantime::format_rfc3339_seconds(times.0),
        humantime::format_rfc3339_seconds(times.1),
    );
    let _ = write!(stderr, "{}", Summary::new(&profile, wanted.internals));
    if let Some(path) = written {
        let _ = writeln!(stderr, "Written to {}", path.display());
    }
    Ok(())
}

/// Lists the files that were skipped.
fn print_skipped(skipped: &SkippedFiles) {
    let mut stderr = io::stderr().lock();
    for (name, why) in &skipped.named {
        let _ = writeln!(stderr, "{name} skipped: {why}.");
    }
    match skipped.count - skipped.named.len() {
        0 => {}
        1 => drop(writeln!(stderr, "… and 1 more file")),
        more => drop(writeln!(stderr, "… and {more} more files")),
    }
}
