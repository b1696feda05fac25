//! Examines the processes that a command is about, before anything is sampled.

use std::io::{self, Write as _};

use anyhow::{Result, bail};

use crate::{
    profile::Kind,
    python,
    session::{Examinations, Follow},
    targets::{
        examiner::Finding,
        selection::{ProcessSelection, Selected},
    },
    text::{printable, with_causes},
};

/// The selected processes.
#[derive(Debug)]
pub(super) struct Examined {
    /// What was found out about each.
    pub(super) found: Vec<Finding>,
    /// How those are found that start later; [`None`] where none is selected.
    pub(super) follow: Option<Follow>,
}

/// Examines the selected processes.
///
/// # Errors
///
/// One sentence for each process that cannot be profiled, which says which of several it is.
pub(super) async fn examine_all(
    examinations: &Examinations,
    selection: &ProcessSelection,
) -> Result<Examined> {
    let Selected {
        processes: selected,
        matching,
    } = selection.find()?;
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    let mut gone = None;
    for (nth, process) in selected.iter().enumerate() {
        match examinations.examine(process.pid).await {
            Ok(finding) => found.push(finding),
            Err(error) if selected.len() == 1 => return Err(error),
            // It may have ended since it was selected.
            Err(error) if !process.is_required => gone = Some(error),
            Err(error) => wrong.push(format!(
                "process {} of {}: {}",
                nth + 1,
                selected.len(),
                with_causes(&error)
            )),
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    match gone {
        Some(error) if found.is_empty() => Err(error),
        _ => {
            let matched = selected.iter().filter_map(|it| Some((it.pid, it.matched?)));
            let follow = matching.map(|matching| Follow {
                matching,
                matched: matched.collect(),
            });
            Ok(Examined { found, follow })
        }
    }
}

/// What is to be said about processes that have no Python frames; `others` says whether there are others.
///
/// # Errors
///
/// One sentence, when there are no other frames and none of the processes is Python.
pub(super) fn check_python(found: &[Finding], others: bool) -> Result<Vec<String>, &python::Error> {
    let mut failures = found.iter().filter_map(|it| it.interpreter.as_ref().err());
    let has_python = found.iter().any(|it| it.interpreter.is_ok());
    if !others
        && !has_python
        && let Some(first) = failures.next()
    {
        return Err(first);
    }
    // Others may be native code only, or start programs that are Python.
    let notable = failures.filter(|error| !matches!(error, python::Error::NotPython { .. }));
    Ok(notable
        .map(|error| format!("There are no Python frames: {error}"))
        .collect())
}

/// Whether anything can be recorded of processes that start no others, where all of these kinds are found in some only.
///
/// # Errors
///
/// One sentence, when none of the processes runs, or is about to run, an interpreter that could have them.
pub(super) fn check_probes(found: &[Finding], kinds: &[&Kind]) -> Result<()> {
    let words: Option<Vec<_>> = kinds.iter().map(|kind| kind.found_in_some()).collect();
    let failures: Option<Vec<_>> = found
        .iter()
        .map(|it| it.interpreter.as_ref().err().filter(|_| !it.is_early()))
        .collect();
    if let (Some(words), Some([first, ..])) = (words, failures.as_deref()) {
        bail!("{} cannot be recorded: {first}", words.join(" and "));
    }
    Ok(())
}

/// [`examine_all`] and [`check_python`], whose notices are printed.
///
/// # Errors
///
/// One sentence that says what to do.
pub(super) async fn examine(
    examinations: &Examinations,
    selection: &ProcessSelection,
    others: bool,
) -> Result<Examined> {
    let examined = examine_all(examinations, selection).await?;
    match check_python(&examined.found, others) {
        Ok(notices) => {
            for notice in notices {
                // Standard error may be closed.
                let _ = writeln!(io::stderr(), "{}", printable(&notice));
            }
        }
        Err(error) => bail!("{error}"),
    }
    Ok(examined)
}

/// The ids of these processes.
pub(super) fn pids(found: &[Finding]) -> Vec<u32> {
    found.iter().map(|one| one.process.pid).collect()
}

/// For example `process 4711`, or `the 3 processes`.
pub(super) fn subject(pids: &[u32]) -> String {
    match pids {
        [one] => format!("process {one}"),
        several => format!("the {} processes", several.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        CPU,
        kinds::{allocations, exceptions},
    };

    #[tokio::test]
    async fn without_cpython_there_is_nothing_that_probes_could_record() {
        // This program.
        let found = [Examinations::new(false)
            .examine(std::process::id())
            .await
            .unwrap()];
        let kinds = [&allocations::KIND, &exceptions::KIND];
        let error = check_probes(&found, &kinds).unwrap_err().to_string();
        let begin = format!(
            "allocations and exceptions cannot be recorded: process {} runs ",
            std::process::id()
        );
        assert!(error.starts_with(&begin), "{error}");
        assert!(error.contains("which is not Python"), "{error}");
        check_probes(&found, &[&allocations::KIND, &CPU]).unwrap();
        check_probes(&[], &kinds).unwrap();
    }

    #[test]
    fn one_process_has_its_id() {
        assert_eq!(subject(&[7]), "process 7");
        assert_eq!(subject(&[7, 8, 9]), "the 3 processes");
    }
}
