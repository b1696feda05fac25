//! Parts that the reports on a process and on a host have in common.

use std::fmt;

use super::rows::line;
use crate::{bpf::Requirement, commands::doctor::left_out::LeftOut, daemon::QuarantinedSubject};

/// Most rows of what is left out here, and by the agent of the host.
const MOST_LEFT_OUT: usize = 10;

/// Writes what is left out, if anything is.
pub(in crate::commands::doctor) fn write_left_out(
    formatter: &mut fmt::Formatter<'_>,
    left_out: &LeftOut,
) -> fmt::Result {
    let LeftOut { here, by_agent } = left_out;
    let by_agent = by_agent.as_ref().filter(|list| list.count != 0);
    if here.is_empty() && by_agent.is_none() {
        return Ok(());
    }
    writeln!(formatter, "Left out")?;
    let mut name = "here";
    for (it, reason) in here.iter().take(MOST_LEFT_OUT) {
        line(formatter, name, &format!("{it}: {reason}"))?;
        name = "";
    }
    write_rest(formatter, here.len())?;
    let Some(list) = by_agent else {
        return Ok(());
    };
    let mut name = "agent run";
    for subject in list.subjects.iter().take(MOST_LEFT_OUT) {
        let QuarantinedSubject {
            name: it,
            reason,
            seconds,
        } = subject;
        line(
            formatter,
            name,
            &format!("{it}: {reason}, since {seconds} s"),
        )?;
        name = "";
    }
    write_rest(formatter, list.count)
}

/// Says how many of `count` are not shown.
fn write_rest(formatter: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.saturating_sub(MOST_LEFT_OUT) {
        0 => Ok(()),
        rest => line(formatter, "", &format!("and {rest} more")),
    }
}

/// Writes whether each requirement is met.
pub(in crate::commands::doctor) fn write_requirements(
    formatter: &mut fmt::Formatter<'_>,
    requirements: &[Requirement],
) -> fmt::Result {
    for requirement in requirements {
        let mark = if requirement.met.is_ok() {
            "ok"
        } else {
            "missing"
        };
        line(formatter, mark, requirement.name)?;
    }
    Ok(())
}
