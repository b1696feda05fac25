//! What a profile says in a few lines: how much of a core it was, of what code, what threads waited for, and whose
//! time it was.
//!
//! Invariants: a line is no wider than the terminal; shares are those of the samples that the line is about.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap, fmt::Write as _, hash::Hash};

use unicode_width::UnicodeWidthStr as _;

use super::{
    library::library,
    rank::busiest_processes,
    share::percent,
    similar::{similar, thread_name},
};
use crate::{
    profile::{FrameKind, LeafMarkers, Location, Memory, Process, Profile, Thread, Unit, Wait},
    text::printable,
};

/// Columns of the word before a line.
const LABEL_WIDTH: usize = 11;

/// The lines, in at most so many columns.
pub(super) fn lines(profile: &Profile, width: usize) -> Vec<String> {
    let width = width.saturating_sub(LABEL_WIDTH);
    let lines = [
        running(profile),
        waiting(profile),
        gil(profile),
        memory(profile),
        marked("raised", profile, |markers| markers.exception),
        locks(profile),
        shares("libraries", libraries(profile), profile),
        shares("threads", threads(profile), profile),
        shares("tasks", tasks(profile), profile),
    ];
    lines
        .into_iter()
        .flatten()
        .map(|line| text(line, width))
        .collect()
}

fn text((label, head, parts): Line, width: usize) -> String {
    let parts = fitting(&parts, width.saturating_sub(head.width()));
    format!("{label:<LABEL_WIDTH$}{head}{parts}")
}

/// The processes in one line, where there are several.
pub(super) fn processes_line(profile: &Profile, width: usize) -> Option<String> {
    let rows = busiest_processes(profile);
    let rows = rows.into_iter().map(|(index, value)| {
        let process: &Process = &profile.processes[index.0 as usize];
        let name = printable(process.name.trim());
        let text = match process.pid {
            0 => name.into_owned(),
            pid => format!("{name} ({pid})"),
        };
        (text, value)
    });
    let line = shares("processes", rows.collect(), profile)?;
    (profile.processes.len() > 1).then(|| text(line, width.saturating_sub(LABEL_WIDTH)))
}

/// Kinds of code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Code {
    Python,
    Native,
    Kernel,
    Unknown,
}

impl Code {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Python, "Python"),
        (Self::Native, "native"),
        (Self::Kernel, "kernel"),
        (Self::Unknown, "unknown"),
    ];

    /// What a thread ran whose innermost frame is this.
    fn of(profile: &Profile, location: &Location) -> Self {
        let line = location.lines.first();
        match line.map(|line| profile.function(line.function).kind) {
            Some(FrameKind::Python) => Self::Python,
            Some(FrameKind::Native) => Self::Native,
            Some(FrameKind::Kernel) => Self::Kernel,
            Some(FrameKind::Marker) => Self::Unknown,
            None => match location.code {
                Some(code) if profile.executable(code.executable).is_kernel() => Self::Kernel,
                Some(_) => Self::Native,
                None => Self::Unknown,
            },
        }
    }
}

/// A line: its label, how it begins, and as many of these as fit.
type Line = (&'static str, String, Vec<String>);

/// What ran: how much of a core, how much of it was garbage collection, and which code.
fn running(profile: &Profile) -> Option<Line> {
    let kind = profile.kind;
    let (mut total, mut collecting) = (0_u64, 0_u64);
    let mut values = HashMap::<Code, u64>::new();
    for sample in &profile.samples {
        let markers = profile.leaf_markers(sample);
        if markers.wait.is_some() {
            continue;
        }
        let leaf = profile.leaf_of(sample).map(|it| profile.location(it));
        let code = leaf.map_or(Code::Unknown, |it| Code::of(profile, it));
        add(&mut values, code, sample.value);
        total = total.saturating_add(sample.value);
        if markers.collects_garbage {
            collecting = collecting.saturating_add(sample.value);
        }
    }
    if total == 0 {
        return None;
    }
    let codes = Code::ALL.iter().filter_map(|(code, name)| {
        let value = values.get(code).copied()?;
        Some(format!("{name} {}", share(value, total)))
    });
    let mut codes: Vec<_> = codes.collect();
    let (label, mut head) = if kind.is_about_tasks() {
        ("running", kind.unit.text(total))
    } else if kind.is_foreign() || !kind.is_time_of_thread() {
        ("code", String::new())
    } else {
        let busy = of_duration(profile, total).map(|busy| format!("{busy} of a core"));
        if kind.is_of_passes() {
            let time = Some(kind.unit.text(total));
            let parts: Vec<_> = time.into_iter().chain(busy).collect();
            ("running", parts.join(", "))
        } else {
            ("CPU", busy.unwrap_or_default())
        }
    };
    let collecting = (collecting != 0).then(|| format!("GC {}", share(collecting, total)));
    if head.is_empty() {
        codes.extend(collecting);
    } else {
        if let Some(collecting) = collecting {
            let _ = write!(head, " ({collecting})");
        }
        head.push_str(": ");
    }
    Some((label, head, codes))
}

/// A time as a share of that for which samples were taken, for example `65 %`.
fn of_duration(profile: &Profile, value: u64) -> Option<String> {
    let duration = u64::try_from(profile.duration.as_nanos()).unwrap_or(u64::MAX);
    (duration != 0 && profile.kind.unit == Unit::Nanoseconds).then(|| share(value, duration))
}

/// How long threads waited, and for what.
fn waiting(profile: &Profile) -> Option<Line> {
    // What threads did that released locks is no state of theirs.
    if !profile.kind.is_of_passes() || profile.kind.is_about_releases() {
        return None;
    }
    let mut reasons = HashMap::<Wait, u64>::new();
    for sample in &profile.samples {
        if let Some(wait) = profile.wait_of(sample) {
            add(&mut reasons, wait, sample.value);
        }
    }
    let text = |value| profile.kind.unit.text(value);
    let total = reasons
        .values()
        .fold(0, |sum: u64, value| sum.saturating_add(*value));
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|&(wait, value)| (Reverse(value), wait));
    let parts = reasons
        .iter()
        .map(|&(wait, value)| format!("{} {}", wait.label(), text(value)));
    (total != 0).then(|| ("waiting", format!("{}: ", text(total)), parts.collect()))
}

/// How often or how long the GIL was held, where that was measured.
fn gil(profile: &Profile) -> Option<Line> {
    if profile.kind.is_time_with_gil() {
        let held = of_duration(profile, profile.total_value())?;
        return Some(("GIL", format!("held {held} of the time"), Vec::new()));
    }
    let without = profile.filtered_out.without_gil;
    let all = profile.total().saturating_add(without);
    let text = || format!("held in {} of the samples", share(profile.total(), all));
    (without != 0).then(|| ("GIL", text(), Vec::new()))
}

/// Which memory it was, or what of it was written to, where that was recorded.
fn memory(profile: &Profile) -> Option<Line> {
    let mut values = HashMap::<Memory, u64>::new();
    for sample in &profile.samples {
        if let Some(memory) = profile.leaf_markers(sample).memory {
            add(&mut values, memory, sample.value);
        }
    }
    let is_written = values.keys().any(|memory| memory.is_written_part());
    let label = if is_written { "written" } else { "memory" };
    let rows = values.into_iter();
    let rows = rows.map(|(memory, value)| (memory.label().to_owned(), value));
    shares(label, rows.collect(), profile)
}

/// For which locks threads waited, or which they released.
fn locks(profile: &Profile) -> Option<Line> {
    let is_wanted = profile.kind.is_about_locks();
    is_wanted
        .then(|| marked("locks", profile, |markers| markers.lock))
        .flatten()
}

/// The shares of what markers above the stacks say.
fn marked(
    label: &'static str,
    profile: &Profile,
    said: impl Fn(LeafMarkers<'_>) -> Option<&str>,
) -> Option<Line> {
    let mut values = HashMap::<&str, u64>::new();
    for sample in &profile.samples {
        if let Some(text) = said(profile.leaf_markers(sample)) {
            add(&mut values, text, sample.value);
        }
    }
    let rows = values.into_iter();
    let rows = rows.map(|(text, value)| (printable(text).into_owned(), value));
    shares(label, rows.collect(), profile)
}

/// Values of libraries, by the function that runs or waits.
fn libraries(profile: &Profile) -> Vec<(String, u64)> {
    let mut values = HashMap::<Cow<'_, str>, u64>::new();
    for sample in &profile.samples {
        let leaf = profile.leaf_of(sample).map(|it| profile.location(it));
        let library = leaf.and_then(|it| library(profile, it));
        add(
            &mut values,
            library.unwrap_or("unknown".into()),
            sample.value,
        );
    }
    values
        .into_iter()
        .map(|(name, value)| (name.into_owned(), value))
        .collect()
}

/// Values of tasks of asyncio, and of what ran in none where there are some. Many whose names differ only by numbers are
/// one.
fn tasks(profile: &Profile) -> Vec<(String, u64)> {
    let mut values = HashMap::<Option<&str>, u64>::new();
    for sample in &profile.samples {
        add(&mut values, profile.task_of(sample), sample.value);
    }
    let outside = values.remove(&None);
    if values.is_empty() {
        return Vec::new();
    }
    let named = values.into_iter().filter_map(|(name, value)| {
        let name = printable(name?.trim());
        Some(Named {
            text: name.to_string(),
            name,
            value,
        })
    });
    let mut rows = grouped(named);
    rows.extend(outside.map(|value| ("none".to_owned(), value)));
    rows
}

/// Values of threads; none of those that stand for all threads of a process. Many whose names differ only by numbers,
/// such as those of requests, are one.
fn threads(profile: &Profile) -> Vec<(String, u64)> {
    let mut values = HashMap::<u32, u64>::new();
    for sample in &profile.samples {
        add(&mut values, sample.thread.0, sample.value);
    }
    let named = values.into_iter().filter_map(|(index, value)| {
        let Thread { tid, name, .. } = &profile.threads[index as usize];
        let name = thread_name(name);
        (*tid != 0).then(|| Named {
            text: format!("{name} ({tid})"),
            name,
            value,
        })
    });
    grouped(named)
}

/// Something with a name, what it is called in a line, and its value.
struct Named<'a> {
    name: Cow<'a, str>,
    text: String,
    value: u64,
}

/// Rows of a line, where many whose names differ only by numbers are one.
fn grouped<'a>(named: impl Iterator<Item = Named<'a>>) -> Vec<(String, u64)> {
    let groups = similar(named, |one| &*one.name);
    let rows = groups.flat_map(|(common, members)| {
        if let Some(common) = common {
            let values = members.iter().map(|one| one.value);
            let sum = values.fold(0, u64::saturating_add);
            return vec![(format!("{} of {common}", members.len()), sum)];
        }
        let members = members.into_iter();
        members.map(|one| (one.text, one.value)).collect()
    });
    rows.collect()
}

/// Values as shares of all, the highest first.
fn shares(label: &'static str, mut rows: Vec<(String, u64)>, profile: &Profile) -> Option<Line> {
    let total = profile.total_value();
    rows.sort_by(|(name, value), (other, than)| than.cmp(value).then(name.cmp(other)));
    let parts = rows
        .iter()
        .map(|(name, value)| format!("{name} {}", share(*value, total)));
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| (label, String::new(), parts))
}

/// As many of the parts as fit into `width` columns, at least one, and how many there are besides.
fn fitting(parts: &[String], width: usize) -> String {
    let more = |count: usize| match count {
        0 => String::new(),
        count => format!(", {count} more"),
    };
    let all = parts.len();
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let rest = more(all - index - 1);
        let needed = text.width() + separator.len() + part.width() + rest.len();
        if index != 0 && needed > width {
            return text + &more(all - index);
        }
        text.push_str(separator);
        text.push_str(part);
    }
    text
}

/// For example `12 %`.
fn share(part: u64, whole: u64) -> String {
    match percent(part, whole) {
        small if small < 1.0 => format!("{small:.1} %"),
        share => format!("{share:.0} %"),
    }
}

fn add<K: Eq + Hash>(values: &mut HashMap<K, u64>, key: K, value: u64) {
    let sum = values.entry(key).or_default();
    *sum = sum.saturating_add(value);
}

#[cfg(test)]
mod tests;
