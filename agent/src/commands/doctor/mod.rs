//! `agent doctor`: whether a process, or this host, can be profiled, why not, and what to do.
//!
//! A process is first examined from outside, then sampled for a second as a capture would.
//!
//! Invariants: the examination loads nothing into the kernel; sampling loads the BPF programs for
//! that second; the process is never stopped and nothing in it changes; whatever is wrong is part of
//! the report, which is always complete, also where the process cannot be read in time.

mod dumps;
mod examination;
mod host;
mod left_out;
mod measured;
mod native;
mod report;
mod show;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;

use self::host::HostReport;
pub use self::{
    examination::examine,
    measured::Measured,
    report::{About, Report, Threads},
};
#[cfg(feature = "testing")]
pub use self::{
    left_out::LeftOut,
    native::{Contents, NativeCode, NativeFile, Symbols},
};
use super::{cli::DoctorOptions, record::SYMBOL_BYTES, standard_output::print};
use crate::{
    aggregate::Filter,
    bpf,
    profile::{CPU, Kind, Periods, RecordedExceptions},
    session::{End, Examinations, SampleTimes, Scope, Session, Settings, Signals},
    text::with_causes,
    threads::WaitRecords,
};

/// Examines a process or this host and prints the report; the status is 1 when it cannot be profiled.
///
/// # Errors
///
/// When the configuration of the agent of this host is given and not valid, and when the report cannot
/// be written. `folder` is that of its profiles if none is configured.
pub async fn run(options: &DoctorOptions, folder: PathBuf) -> anyhow::Result<ExitCode> {
    let Some(selection) = &options.process else {
        let mut report = HostReport::find(RATE);
        report.left_out.ask(options, folder).await?;
        print(&report)?;
        return Ok(status(report.is_profilable()));
    };
    let mut report = examine(selection.find_one()?).await;
    report.measure().await;
    report.left_out.ask(options, folder).await?;
    print(&report)?;
    Ok(status(report.is_profilable()))
}

fn status(is_profilable: bool) -> ExitCode {
    if is_profilable {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Samples per second, in hertz, as of a capture without options.
const RATE: u32 = 99;

/// Time that a process is sampled.
const SAMPLED: Duration = Duration::from_secs(1);

impl Report {
    /// Samples the process for a second, if a capture would start.
    ///
    /// Must be called within a tokio runtime.
    pub async fn measure(&mut self) {
        if self.is_profilable() {
            let examinations = Examinations::new(true);
            let workers = examinations.workers.clone();
            let measured = sample(examinations, self.pid, SAMPLED).await;
            self.measured = Some(measured.map_err(|error| with_causes(&error)));
            self.left_out.add(workers.status().quarantined);
        }
    }
}

/// Samples a process as a capture would, and writes nothing.
async fn sample(
    examinations: Examinations,
    pid: u32,
    duration: Duration,
) -> anyhow::Result<Measured> {
    bpf::check_requirements()?;
    let finding = examinations.examine(pid).await?;
    let mut signals = Signals::to_end()?;
    let settings = Settings {
        kinds: vec![&CPU],
        periods: Periods::new(RATE, None),
        native: true,
        gil: false,
        wait_identities: false,
        trace_switches: false,
        exceptions: RecordedExceptions::default(),
        times: SampleTimes::Dropped,
        records: WaitRecords::default(),
        symbol_bytes: SYMBOL_BYTES,
    };
    let scope = Scope::of(vec![finding], false);
    let mut session = Session::open(&settings, examinations, scope, &mut signals, &mut ()).await?;
    let mut end = End::new(&[pid], Some(duration), signals)?;
    let began = session.start()?;
    let reason = session.run(&began, &mut end, None, &mut ()).await?;
    let filter = Filter::default();
    let profiles = session
        .finish(&began, settings.periods, &filter, reason, &mut end, None)
        .await?;
    let profile = profiles.first().context("there is no profile")?;
    let others = Kind::ALL.iter().copied().filter(|kind| !kind.is_cpu());
    let refused = session.bpf.refused_events(others).into_iter();
    Ok(Measured {
        refused_events: refused
            .map(|(kind, error)| (kind.name, error.to_string()))
            .collect(),
        ..Measured::of(profile)
    })
}

#[cfg(test)]
mod tests;
