//! `agent lock`: for which locks the threads of a process wait, where, and who releases them.

mod table;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use self::table::Table;
use super::{cli::WaitOptions, sampling, standard_output::print};
use crate::{
    profile::{
        Profile,
        kinds::{lock, lock_release, wall},
    },
    threads::{Deadlocks, WaitRecords},
};

/// Samples a process and prints the table.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn run(options: &WaitOptions) -> Result<ExitCode> {
    let kinds = vec![&wall::KIND, &lock::KIND, &lock_release::KIND];
    let deadlocks = Deadlocks::default();
    let records = WaitRecords {
        deadlocks: Some(deadlocks.clone()),
        ..WaitRecords::default()
    };
    let pid = options.process.find_one()?;
    let profiles = sampling::sample(options, pid, kinds, records, |_| Ok(())).await?;
    let [elapsed, waits, releases]: [Profile; 3] =
        profiles.try_into().ok().context("a kind has no profile")?;
    let table = Table::new(&elapsed, &waits, &releases, &deadlocks.all());
    print(table)?;
    Ok(ExitCode::SUCCESS)
}
