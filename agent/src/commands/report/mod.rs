//! `agent report`: stored profiles and files, listed, shown, or merged into one.

mod call_tree;
mod view;

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    slice,
};

use anyhow::Result;

use self::view::{Head, View};
use crate::{
    commands::{
        cli::ReportOptions,
        diff,
        outputs::Outputs,
        sources::{self, Loaded},
        standard_output::print,
        summary::Summary,
    },
    formats::EncodeOptions,
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
        return diff::run(profiles, &options.selection, sample_type, options.encoding);
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
    match (&*options.outputs, &options.view) {
        ([_, ..], _) => {
            // The id is for default names, and these outputs have names.
            let outputs = Outputs::prepare(&options.outputs, 0)?;
            write(&load()?, options.encoding, outputs)?;
        }
        ([], Some(view)) => {
            let loaded = load()?;
            print_skipped(&loaded.skipped);
            print(View::new(&loaded, view, options.encoding))?;
        }
        ([], None) => list(&open(options, default_folder)?, &options.selection)?,
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

fn write(loaded: &Loaded, encoding: EncodeOptions, outputs: Outputs) -> Result<()> {
    let profile = slice::from_ref(&loaded.profile);
    let written = outputs.write(profile, encoding);
    print_skipped(&loaded.skipped);
    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the profile is written all the same.
    let _ = write!(stderr, "{}", Head(loaded));
    let summary = Summary::new(&loaded.profile, encoding);
    let _ = write!(stderr, "{summary}");
    written.print(&mut stderr)
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
