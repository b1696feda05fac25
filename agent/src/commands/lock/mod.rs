//! `agent lock`: for which locks the threads of a process wait, and where.

mod table;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result};

use self::table::Table;
use super::{cli::WaitOptions, sampling};
use crate::profile::{
    Profile,
    kinds::{lock, wall},
};

/// Samples a process and prints the table.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn run(options: &WaitOptions) -> Result<ExitCode> {
    let kinds = vec![&wall::KIND, &lock::KIND];
    let profiles = sampling::sample(options, kinds, None, |_| Ok(())).await?;
    let [elapsed, waits]: [Profile; 2] =
        profiles.try_into().ok().context("a kind has no profile")?;
    let mut output = io::stdout().lock();
    write!(output, "{}", Table::new(&elapsed, &waits)).context("cannot write the table")?;
    Ok(ExitCode::SUCCESS)
}
