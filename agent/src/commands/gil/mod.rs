//! `agent gil`: which threads of a process hold the GIL, which wait for it, and where.

mod profiles;
mod table;

use std::process::ExitCode;

use anyhow::{Result, bail};

use self::{profiles::Profiles, table::Table};
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
    if !has_gil && profiles.blamed.samples.is_empty() {
        // It can be switched on when such a program runs.
        bail!(
            "process {pid} runs without a GIL, as this build of Python does: `agent --pid {pid} --event \
             wall` shows what its threads wait for"
        );
    }
    print(Table::new(&profiles, &times))?;
    Ok(ExitCode::SUCCESS)
}
