//! What was kept: listed, or merged into one profile.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context as _, Result};

use crate::{
    commands::{
        cli::{Output, ReportOptions, ReportOutput},
        summary::Summary,
    },
    formats::encode,
    store::{Merged, Selection, SkippedFiles, Store},
    text::plural,
};

/// Lists what is kept in a folder, or merges it; `usual` is the folder if none is named.
///
/// # Errors
///
/// One sentence that says what to do.
pub fn report_kept(options: &ReportOptions, usual: &Path) -> Result<ExitCode> {
    let kept = Store::open(options.folder.as_deref().unwrap_or(usual))?;
    match &options.output {
        Some(output) => merge(&kept, &options.selection, output)?,
        None => list(&kept, &options.selection)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(kept: &Store, selection: &Selection) -> Result<()> {
    let listing = kept.list(selection)?;
    tell(&listing.skipped);
    let mut stdout = io::stdout().lock();
    write!(stdout, "{listing}").context("cannot write the list")
}

fn merge(kept: &Store, selection: &Selection, wanted: &ReportOutput) -> Result<()> {
    // No file is named after a process: there is a name.
    let output = Output::prepare(&wanted.destination, wanted.format, 0)?;
    let Merged {
        profile,
        files,
        times,
        skipped,
    } = kept.merge(selection)?;
    let mut bytes = Vec::new();
    encode(&profile, wanted.format, &wanted.encoding(), &mut bytes)?;
    let written = output.commit(&bytes)?;

    tell(&skipped);
    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the profile is written all the same.
    let _ = writeln!(
        stderr,
        "{files} {} from {} to {}",
        plural(files, "profile", "profiles"),
        humantime::format_rfc3339_seconds(times.0),
        humantime::format_rfc3339_seconds(times.1),
    );
    let _ = write!(stderr, "{}", Summary::new(&profile));
    if let Some(path) = written {
        let _ = writeln!(stderr, "Written to {}", path.display());
    }
    Ok(())
}

/// Names the files that were left out.
fn tell(skipped: &SkippedFiles) {
    let mut stderr = io::stderr().lock();
    for (name, why) in &skipped.named {
        let _ = writeln!(stderr, "{name} is left out: {why}.");
    }
    match skipped.count - skipped.named.len() {
        0 => {}
        1 => drop(writeln!(stderr, "… and 1 more file")),
        more => drop(writeln!(stderr, "… and {more} more files")),
    }
}
