//! `agent report`: stored profiles and files, listed, shown, or merged into one.

mod call_tree;
mod view;

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Result;

use self::view::{Head, View};
use crate::{
    commands::{
        cli::{ReportOptions, ReportOutput},
        diff,
        output::Output,
        sources::{self, Loaded},
        standard_output::print,
        summary::Summary,
    },
    formats::encode,
    store::{Selection, SkippedFiles, Store},
};

/// Lists, shows or merges the profiles of files and folders, or compares two; `default_folder` is the folder if
/// none is given.
///
/// # Errors
///
/// One sentence that says what to do.
pub fn run(options: &ReportOptions, default_folder: &Path) -> Result<ExitCode> {
    let sample_type = options.sample_type.as_deref();
    if let Some(profiles) = &options.diff {
        return diff::run(profiles, &options.selection, sample_type);
    }
    let load = || -> Result<Loaded> {
        if options.files.is_empty() {
            Ok(open(options, default_folder)?
                .merge(&options.selection)?
                .into())
        } else {
            sources::load(&options.files, &options.selection, sample_type)
        }
    };
    match (&options.output, &options.view) {
        (Some(wanted), _) => {
            // The id is for default names, and this output has a name.
            let output = Output::prepare(&wanted.destination, wanted.format, 0, None)?;
            write(&load()?, wanted, output)?;
        }
        (None, Some(view)) => {
            let loaded = load()?;
            print_skipped(&loaded.skipped);
            print(View::new(&loaded, view))?;
        }
        (None, None) => list(&open(options, default_folder)?, &options.selection)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn open(options: &ReportOptions, default_folder: &Path) -> Result<Store> {
    let folder = options.folder.as_deref().unwrap_or(default_folder);
    Ok(Store::open(folder)?)
}

fn list(store: &Store, selection: &Selection) -> Result<()> {
    let listing = store.list(selection)?;
    print_skipped(&listing.skipped);
    print(listing)?;
    Ok(())
}

fn write(loaded: &Loaded, wanted: &ReportOutput, output: Output) -> Result<()> {
    let mut bytes = Vec::new();
    encode(
        &loaded.profile,
        wanted.format,
        wanted.encoding(),
        &mut bytes,
    )?;
    let written = output.commit(&bytes)?;

    print_skipped(&loaded.skipped);
    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the profile is written all the same.
    let _ = write!(stderr, "{}", Head(loaded));
    let _ = write!(
        stderr,
        "{}",
        Summary::new(&loaded.profile, wanted.internals)
    );
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
