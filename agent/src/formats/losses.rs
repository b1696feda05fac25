//! Losses of a profile as sentences, which are comments of a pprof file and lines of a report; reads
//! them again.

use std::cmp::Reverse;

use crate::profile::{
    Counter, FilteredOut, Losses, Unit, UnsymbolizedLosses, UnwindLosses, WaitTotals,
};

/// What is before the time of idle threads in its sentence.
const IDLE_PREFIX: &str = "idle threads: ";

/// What is after it.
const IDLE_SUFFIX: &str = " left out (--idle shows them)";

/// What is after the memory that was given back in its sentence.
const GIVEN_BACK_SUFFIX: &str = " of resident memory was given back meanwhile, and not taken off.";

/// One sentence for each count that is not zero.
#[must_use]
pub fn sentences(filtered_out: &FilteredOut, losses: &Losses) -> Vec<String> {
    let idle_ns = filtered_out.idle_ns;
    let Losses {
        lost_samples,
        truncated,
        incomplete,
        unsymbolized_python_frames,
        not_python,
        unwind,
        lost_native_stacks,
        unmatched,
        unsymbolized_native_frames: unsymbolized,
        names_only: _,
        unread_files: _,
        malformed_records: _,
        untracked_processes: _,
        lost_process_events: _,
        given_back,
        unrecorded_ms: _,
        raise_variance: _,
        probe_ms: _,
        switch_ms: _,
        waits,
        unwatched_samples: _,
        lost_moves: _,
        untimed_samples: _,
        unprobed: _,
        own_allocators: _,
        refused_announcements: _,
    } = *losses;
    let unwind_reasons = unwind_reasons(&unwind);
    let unsymbolized_reasons = unsymbolized_reasons(&unsymbolized);
    let kinds = [
        (
            lost_samples,
            ("sample was", "samples were"),
            "lost: the ring buffer was full.",
        ),
        (
            truncated,
            ("stack was", "stacks were"),
            "truncated: only the 256 frames at either end are kept.",
        ),
        (
            incomplete,
            ("stack is", "stacks are"),
            "incomplete: Python frames are missing.",
        ),
        (
            unsymbolized_python_frames,
            ("Python frame has", "Python frames have"),
            "no name: the code object is unknown.",
        ),
        (
            not_python,
            ("sample is", "samples are"),
            "of threads that ran no Python.",
        ),
        (
            unwind.total(),
            ("stack lacks", "stacks lack"),
            &unwind_reasons,
        ),
        (
            lost_native_stacks,
            ("stack has", "stacks have"),
            "Python frames only: the ring buffer was full.",
        ),
        (
            unmatched,
            ("stack has", "stacks have"),
            "Python frames without a native frame that runs them: they are at the root.",
        ),
        (
            unsymbolized.total(),
            ("native frame has", "native frames have"),
            &unsymbolized_reasons,
        ),
    ];
    samples_filtered_out(filtered_out)
        .into_iter()
        .chain(kinds)
        .chain(losses_not_in_samples(losses))
        .filter(|&(count, ..)| count != 0)
        .map(|(count, subject, rest)| sentence(count, subject, rest))
        .chain((given_back != 0).then(|| given_back_sentence(given_back)))
        .chain((waits.total() != 0).then(|| {
            let subject = ("millisecond of waits was", "milliseconds of waits were");
            sentence(waits.total(), subject, &measured_waits(&waits))
        }))
        .chain((idle_ns != 0).then(|| idle_sentence(idle_ns)))
        .collect()
}

/// The time of threads that waited for work.
fn idle_sentence(nanoseconds: u64) -> String {
    let time = Unit::Nanoseconds.text(nanoseconds);
    format!("{IDLE_PREFIX}{time}{IDLE_SUFFIX}")
}

/// The nanoseconds of an [`idle_sentence`], to its precision.
fn read_idle(sentence: &str) -> Option<u64> {
    let time = sentence.strip_prefix(IDLE_PREFIX)?;
    let time = time.strip_suffix(IDLE_SUFFIX)?.strip_suffix(" s")?;
    decimal(time, 2)?.checked_mul(10_000_000)
}

/// The memory that was given back.
fn given_back_sentence(bytes: u64) -> String {
    format!("{}{GIVEN_BACK_SUFFIX}", Unit::Bytes.text(bytes))
}

/// The bytes of a [`given_back_sentence`], to its precision.
fn read_given_back(sentence: &str) -> Option<u64> {
    let memory = sentence.strip_suffix(GIVEN_BACK_SUFFIX)?;
    decimal(memory.strip_suffix(" MB")?, 1)?.checked_mul(100_000)
}

/// A number with so many decimals, without its point: 1234 of `12.34`.
fn decimal(text: &str, decimals: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    (part.len() == decimals).then(|| format!("{whole}{part}").parse().ok())?
}

/// A count, its subject in singular and plural, and the rest of the sentence.
type Loss<'a> = (u64, (&'a str, &'a str), &'a str);

/// Samples that a filter has excluded.
fn samples_filtered_out(filtered_out: &FilteredOut) -> [Loss<'static>; 3] {
    let FilteredOut {
        other_threads,
        without_gil,
        in_imports,
        idle_ns: _,
    } = *filtered_out;
    [
        (
            other_threads,
            ("sample is", "samples are"),
            "of other threads, and filtered out.",
        ),
        (
            without_gil,
            ("sample is", "samples are"),
            "of threads that did not hold the GIL, and filtered out.",
        ),
        (
            in_imports,
            (
                "exception inside the import system is",
                "exceptions inside the import system are",
            ),
            "left out: they count where code imports, or not at all if the import system catches them.",
        ),
    ]
}

/// Losses of other things than samples and frames.
fn losses_not_in_samples(losses: &Losses) -> [Loss<'static>; 15] {
    [
        (
            losses.names_only,
            ("address has", "addresses have"),
            "no lines and no inlined functions: there was no time to look them up.",
        ),
        (
            losses.unread_files,
            ("file was", "files were"),
            "not read for names and lines: it would have taken too long.",
        ),
        (
            losses.malformed_records,
            ("record was", "records were"),
            "dropped: the agent could not decode them.",
        ),
        (
            losses.untracked_processes,
            ("process is", "processes are"),
            "not profiled: the limit of profiled processes was reached.",
        ),
        (
            losses.lost_process_events,
            (
                "start or end of a process was",
                "starts or ends of processes were",
            ),
            "lost: the ring buffer was full.",
        ),
        (
            losses.unrecorded_ms,
            ("millisecond was", "milliseconds were"),
            "left out to bound the cost: exceptions are estimated from the others, and rare ones may be missing.",
        ),
        (
            losses.raise_variance,
            ("is the variance", "is the variance"),
            "of the number of exceptions: its square root is the standard error.",
        ),
        (
            losses.probe_ms,
            (
                "millisecond of CPU time was",
                "milliseconds of CPU time were",
            ),
            "taken of the profiled programs by the probes.",
        ),
        (
            losses.switch_ms,
            (
                "millisecond of CPU time was",
                "milliseconds of CPU time were",
            ),
            "taken of the profiled programs by tracing their context switches.",
        ),
        (
            losses.unwatched_samples,
            ("sample is", "samples are"),
            "missing: there were too many pages, or too many at once, to look at them again.",
        ),
        (
            losses.lost_moves,
            ("move of memory was", "moves of memory were"),
            "missed, as there were too many at once: what was moved is missing.",
        ),
        (
            losses.untimed_samples,
            ("sample is", "samples are"),
            "not in the chart: it ends early, as only the times of 1,000,000 samples are kept.",
        ),
        (
            losses.unprobed,
            ("process has", "processes have"),
            "no probe, and no samples: they are only in a supported CPython with the functions to probe.",
        ),
        (
            losses.own_allocators,
            (
                "process of a free-threaded build has an allocator of its own:",
                "processes of free-threaded builds have allocators of their own:",
            ),
            "allocations of Python objects are not recorded, only those of native libraries.",
        ),
        (
            losses.refused_announcements,
            (
                "announcement of an allocation is",
                "announcements of allocations are",
            ),
            "left out: for no bytes or more than a terabyte, or not to be read.",
        ),
    ]
}

fn sentence(count: u64, (one, many): (&str, &str), rest: &str) -> String {
    let subject = if count == 1 { one } else { many };
    format!("{count} {subject} {rest}")
}

/// Adds the count of a sentence, if it is one of [`sentences`]. It is recognized by formatting each
/// possible sentence, so that the texts are in one counter only.
pub(super) fn read(sentence: &str, filtered_out: &mut FilteredOut, losses: &mut Losses) {
    if let Some(idle_ns) = read_idle(sentence) {
        filtered_out.merge(&FilteredOut {
            idle_ns,
            ..FilteredOut::default()
        });
        return;
    }
    if let Some(bytes) = read_given_back(sentence) {
        losses.given_back = losses.given_back.saturating_add(bytes);
        return;
    }
    let number = sentence
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok());
    let Some(number) = number.filter(|&number: &u64| number != 0) else {
        return;
    };
    for counter in FilteredOut::SAMPLES {
        let mut only = FilteredOut::default();
        *counter(&mut only) = number;
        if sentences(&only, &Losses::default()) == [sentence] {
            filtered_out.merge(&only);
            return;
        }
    }
    for counter in Losses::COUNTERS {
        let mut only = Losses::default();
        *counter(&mut only) = number;
        if sentences(&FilteredOut::default(), &only) == [sentence] {
            losses.merge(&only);
            return;
        }
    }
    if sentence.contains(" native frames: ") {
        read_reasons(
            sentence,
            &mut losses.unwind,
            &UnwindLosses::ALL,
            unwind_reasons,
        );
    } else if sentence.contains(" measured: ") {
        read_reasons(
            sentence,
            &mut losses.waits,
            &WaitTotals::ALL,
            measured_waits,
        );
    } else if sentence.contains(" no name: ") {
        read_reasons(
            sentence,
            &mut losses.unsymbolized_native_frames,
            &UnsymbolizedLosses::ALL,
            unsymbolized_reasons,
        );
    }
}

/// Adds the counts of reasons in a sentence; `format` formats its end.
fn read_reasons<T: Default>(
    sentence: &str,
    losses: &mut T,
    counters: &[Counter<T>],
    format: fn(&T) -> String,
) {
    for counter in counters {
        let mut only = T::default();
        *counter(&mut only) = 1;
        let count = counter(losses);
        *count = count.saturating_add(reason(sentence, &format(&only)));
    }
}

/// The count of a reason in a sentence; `alone` is the end of a sentence with that reason only, once.
fn reason(sentence: &str, alone: &str) -> u64 {
    let begin = alone.find(": ").map_or(0, |at| at + 2);
    let Some(text) = alone.find("(1)").and_then(|end| alone.get(begin..=end)) else {
        return 0;
    };
    let mut count = 0;
    // The text of one reason may be the end of another's.
    for before in [": ", ", "] {
        if let Some((_, rest)) = sentence.split_once(&format!("{before}{text}")) {
            let number = rest
                .split(')')
                .next()
                .and_then(|number| number.parse().ok());
            count = number.unwrap_or(0);
        }
    }
    count
}

/// For example `native frames: the stack was not in memory (12), an unwind table was not loaded yet (3).`
fn unwind_reasons(losses: &UnwindLosses) -> String {
    let UnwindLosses {
        no_registers,
        unmapped,
        no_table,
        no_rule,
        fault,
        cfa_not_above,
        too_deep,
        other,
    } = *losses;
    let reasons = [
        (no_registers, "no registers"),
        (unmapped, "an address was outside known mappings"),
        (no_table, "an unwind table was not loaded yet"),
        (no_rule, "no unwind rule for the address"),
        (fault, "the stack was not in memory"),
        (cfa_not_above, "the caller's frame was not above"),
        (too_deep, "the frame limit was reached"),
        (other, "other reasons"),
    ];
    format!("native frames: {}.", counted(reasons))
}

/// For example `no name: the file has no symbols (3), JIT code without a perf map (2).`
fn unsymbolized_reasons(losses: &UnsymbolizedLosses) -> String {
    let UnsymbolizedLosses {
        no_symbols,
        no_symbol,
        unreadable,
        no_map,
        not_in_map,
        kptr_restricted,
        kallsyms_unreadable,
    } = *losses;
    let reasons = [
        (no_symbols, "the file has no symbols"),
        (no_symbol, "no symbol is at the address"),
        (unreadable, "the symbols could not be read"),
        (no_map, "JIT code without a perf map"),
        (not_in_map, "JIT code that its perf map lacks"),
        (kptr_restricted, "the kernel hides its addresses"),
        (kallsyms_unreadable, "/proc/kallsyms could not be read"),
    ];
    let advice = match kptr_restricted {
        0 => "",
        _ => {
            " For names of the kernel's functions, run agent as root or with CAP_SYSLOG, and set \
             the sysctl kernel.kptr_restrict to 0 or 1."
        }
    };
    format!("no name: {}.{advice}", counted(reasons))
}

/// For example `measured: for the end of a time (5000), for locks and the GIL (120).`
fn measured_waits(waits: &WaitTotals) -> String {
    let WaitTotals {
        lock,
        sleep,
        poll,
        io,
        child,
        page_fault,
        other,
    } = *waits;
    let reasons = [
        (lock, "for locks and the GIL"),
        (sleep, "for the end of a time"),
        (poll, "for one of several descriptors"),
        (io, "for a descriptor or a file"),
        (child, "for a child process"),
        (page_fault, "for a page of memory"),
        (other, "for something else"),
    ];
    format!("measured: {}.", counted(reasons))
}

/// The reasons that occurred, the most frequent first, each with its count.
fn counted<const N: usize>(mut reasons: [(u64, &str); N]) -> String {
    reasons.sort_by_key(|&(count, _)| Reverse(count));
    let seen = reasons.iter().take_while(|&&(count, _)| count != 0);
    let texts: Vec<_> = seen
        .map(|(count, reason)| format!("{reason} ({count})"))
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests;
