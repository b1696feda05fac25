//! `agent report --diff`: what has changed between two profiles.

mod comparison;
mod noise;
mod table;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Result, bail};

use self::{comparison::Comparison, table::Table};
use super::{cli::DiffOptions, sources, standard_output::print};
use crate::{formats::EncodeOptions, profile::Profile, store::Selection};

/// Exit status where something grew by more than it may.
const GREW: u8 = 3;

/// Compares two profiles and prints what has changed.
///
/// # Errors
///
/// One sentence that says what to do: when one cannot be read, or they are of two kinds.
pub(super) fn run(
    options: &DiffOptions,
    selection: &Selection,
    sample_type: Option<&str>,
    encoding: EncodeOptions,
) -> Result<ExitCode> {
    let read = |path: &PathBuf| -> Result<Profile> {
        let loaded = sources::load(std::slice::from_ref(path), selection, sample_type)?;
        Ok(loaded.profile)
    };
    let (before, after) = (read(&options.before)?, read(&options.after)?);
    check_kinds(&before, &after)?;
    let comparison = Comparison::new([&before, &after], options.normalize, encoding);
    print(Table::new(&comparison, options.lines, encoding))?;
    let Some(most) = options.fail_above else {
        return Ok(ExitCode::SUCCESS);
    };
    let Some(grown) = comparison.grown(most.share()) else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut stderr = io::stderr().lock();
    // Standard error may be closed; the exit status says it too.
    let _ = writeln!(
        stderr,
        "agent: {} grew by {:.1} % of all, more than {most}",
        table::grown_text(&grown),
        100.0 * comparison.share(grown.change),
    );
    Ok(ExitCode::from(GREW))
}

fn check_kinds(before: &Profile, after: &Profile) -> Result<()> {
    if before.kind != after.kind {
        bail!(
            "the profiles are of two events, {} and {}: compare profiles of one event",
            before.kind.name,
            after.kind.name
        );
    }
    for (profile, name) in [(before, "first"), (after, "second")] {
        if profile.total_value() == 0 {
            bail!("the {name} profile has no samples: record a longer time");
        }
    }
    Ok(())
}
