//! Native frames in the report.

use std::fmt;

use super::rows::{line, path};
use crate::{
    commands::doctor::{
        measured::Measured,
        native::{Contents, NativeCode, NativeFile, RunTime, Symbols, Unread},
    },
    text::plural,
};

/// Most files listed per finding.
const MOST_LISTED: usize = 5;

/// What is said of files that were not read.
const UNREAD: [(Unread, &str); 3] = [
    (Unread::Invalid, "cannot be read"),
    (Unread::TooLong, "takes too long to read"),
    (
        Unread::NotInTime,
        "was not read: all files together take too long",
    ),
];

/// Writes which files have unwind tables and symbols.
pub(crate) fn write_code(formatter: &mut fmt::Formatter<'_>, code: &NativeCode) -> fmt::Result {
    let files = &*code.files;
    let has_table = |contents: &Contents| contents.has_unwind_table;
    let with_tables = number(files, has_table);
    let tables = if with_tables == files.len() {
        format!("{}, all with unwind tables", counted(files.len()))
    } else {
        format!("{}, {with_tables} with unwind tables", counted(files.len()))
    };
    line(formatter, "unwinding", &tables)?;
    for (unread, what) in UNREAD {
        let such = files.iter().filter(|file| file.contents == Err(unread));
        write_files(formatter, such, what)?;
    }
    let without = files
        .iter()
        .filter(|file| file.contents.is_ok_and(|it| !has_table(&it)));
    write_files(
        formatter,
        without,
        "no call-frame information; frame pointers are tried",
    )?;
    write_names(formatter, files)?;
    match &code.run_time {
        Some(RunTime { map, has_map }) => {
            let names = if *has_map {
                "with names, from"
            } else {
                "without names: there is no"
            };
            let text = format!("code {names} {}", path(map));
            line(formatter, "run time", &text)
        }
        None => Ok(()),
    }
}

/// Writes what the samples show.
pub(crate) fn write_measured(
    formatter: &mut fmt::Formatter<'_>,
    measured: &Measured,
) -> fmt::Result {
    let Measured {
        duration,
        walked,
        complete,
        ends,
        losses,
        refused_events: _,
    } = measured;
    let seconds = duration.as_secs_f64();
    if *walked == 0 && losses.is_empty() {
        let text = format!("no samples: the process used no CPU in {seconds:.1} s");
        return line(formatter, "stacks", &text);
    }
    let samples = plural(*walked, "sample", "samples");
    let text = format!("{complete} of {walked} {samples} complete, in {seconds:.1} s");
    line(formatter, "stacks", &text)?;
    if !ends.is_empty() {
        let ends: Vec<_> = ends
            .iter()
            .map(|(name, count)| format!("{name} ({count})"))
            .collect();
        line(formatter, "", &format!("truncated in {}", ends.join(", ")))?;
    }
    for sentence in losses {
        line(formatter, "", sentence)?;
    }
    Ok(())
}

fn write_names(formatter: &mut fmt::Formatter<'_>, files: &[NativeFile]) -> fmt::Result {
    let has = |symbols| number(files, |contents| contents.symbols == symbols);
    let kinds = [
        (has(Symbols::All), "with all symbols"),
        (has(Symbols::Exported), "with exported symbols only"),
        (has(Symbols::None), "with no symbols"),
    ];
    let there = kinds.into_iter().filter(|(number, _)| *number != 0);
    let texts: Vec<_> = there
        .enumerate()
        .map(|(index, (number, what))| match index {
            0 => format!("{} {what}", counted(number)),
            _ => format!("{number} {what}"),
        })
        .collect();
    if texts.is_empty() {
        return Ok(());
    }
    line(formatter, "names", &texts.join(", "))?;
    let without = files
        .iter()
        .filter(|file| file.contents.is_ok_and(|it| it.symbols == Symbols::None));
    write_files(formatter, without, "its frames are addresses")?;
    let text = match number(files, |contents| contents.has_debug_info) {
        0 => "no file with debugging information".to_owned(),
        number => format!("{} with debugging information", counted(number)),
    };
    line(formatter, "lines", &text)
}

/// A row for each file, up to a limit.
fn write_files<'a>(
    formatter: &mut fmt::Formatter<'_>,
    files: impl Iterator<Item = &'a NativeFile>,
    what: &str,
) -> fmt::Result {
    let files: Vec<_> = files.collect();
    let (shown, rest) = files.split_at(files.len().min(MOST_LISTED));
    for file in shown {
        line(formatter, "", &format!("{}: {what}", file.name))?;
    }
    match rest.len() {
        0 => Ok(()),
        rest => line(formatter, "", &format!("and {rest} more")),
    }
}

fn number(files: &[NativeFile], is_one: impl Fn(&Contents) -> bool) -> usize {
    let contents = files.iter().filter_map(|file| file.contents.as_ref().ok());
    contents.filter(|contents| is_one(contents)).count()
}

/// For example `1 file`.
fn counted(files: usize) -> String {
    format!("{files} {}", plural(files as u64, "file", "files"))
}
