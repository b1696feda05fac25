//! `agent gil`: which threads of a process hold the GIL, which wait for it, and where.
//!
//! Where there is no GIL, which threads stop the others.

mod place_names;
mod profiles;
mod table;

use std::process::ExitCode;

use anyhow::Result;

use self::{
    profiles::Profiles,
    table::{Subject, Table},
};
use super::{cli::WaitOptions, sampling, standard_output::print};
use crate::{
    profile::kinds::{gil, gil_held, wall},
    threads::{GilTimes, WaitRecords},
};

/// Samples a process and prints the table.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn run(options: &WaitOptions) -> Result<ExitCode> {
    let pid = options.process.find_one()?;
    let times = GilTimes::default();
    let kinds = vec![&wall::KIND, &gil::KIND, &gil_held::KIND];
    let mut has_gil = false;
    let records = WaitRecords {
        gil_times: Some(times.clone()),
        ..WaitRecords::default()
    };
    let profiles = sampling::sample(options, pid, kinds, records, |finding| {
        let interpreter = finding.interpreter.as_ref();
        let interpreter = interpreter.map_err(|error| anyhow::anyhow!("{error}"))?;
        has_gil = !interpreter.flavour.is_free_threaded;
        Ok(())
    });
    let profiles = Profiles::new(profiles.await?)?;
    // It can be switched on when a program of a build without one runs.
    let has_gil = has_gil || !profiles.held.samples.is_empty();
    let subject = if has_gil {
        Subject::Gil
    } else {
        Subject::StopTheWorld
    };
    print(Table::new(&profiles, &times, subject))?;
    Ok(ExitCode::SUCCESS)
}
