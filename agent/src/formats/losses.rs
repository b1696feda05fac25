//! What a profile lacks, in plain sentences.

use std::cmp::Reverse;

use crate::profile::{Counter, FilteredOut, Losses, UnsymbolizedLosses, UnwindLosses};

/// One sentence for each kind of sample that a filter left out, and of loss that happened.
#[must_use]
pub fn sentences(filtered_out: &FilteredOut, losses: &Losses) -> Vec<String> {
    let FilteredOut {
        other_threads,
        without_gil,
    } = *filtered_out;
    let Losses {
        lost_samples,
        truncated,
        incomplete,
        unsymbolized_python_frames,
        not_python,
        unwind,
        lost_native_stacks,
        unmatched,
        unsymbolized_native_frames: without_name,
        malformed_records,
        untracked_processes,
        lost_process_events,
    } = *losses;
    let unwound = unwound(&unwind);
    let unnamed = unnamed(&without_name);
    let kinds = [
        (
            other_threads,
            ("sample is", "samples are"),
            "of other threads, and left out.",
        ),
        (
            without_gil,
            ("sample is", "samples are"),
            "of threads that did not hold the GIL, and left out.",
        ),
        (
            lost_samples,
            ("sample was", "samples were"),
            "lost: the ring buffer was full.",
        ),
        (
            truncated,
            ("stack was", "stacks were"),
            "too deep: the frames between the 256 at either end are left out.",
        ),
        (
            incomplete,
            ("stack is", "stacks are"),
            "incomplete: the walk did not reach the root.",
        ),
        (
            unsymbolized_python_frames,
            ("frame has", "frames have"),
            "no name: the function could not be told.",
        ),
        (
            not_python,
            ("sample is", "samples are"),
            "of threads that ran no Python.",
        ),
        (unwind.total(), ("stack lacks", "stacks lack"), &unwound),
        (
            lost_native_stacks,
            ("stack has", "stacks have"),
            "Python frames alone: the ring buffer was full.",
        ),
        (
            unmatched,
            ("stack has", "stacks have"),
            "Python frames that no native frame seems to run: these stand at the root.",
        ),
        (
            without_name.total(),
            ("native frame has", "native frames have"),
            &unnamed,
        ),
        (
            malformed_records,
            ("record was", "records were"),
            "dropped: the agent could not understand what the kernel half sent.",
        ),
        (
            untracked_processes,
            ("process is", "processes are"),
            "left out: more are running than the agent has room for.",
        ),
        (
            lost_process_events,
            (
                "start or end of a process was",
                "starts or ends of processes were",
            ),
            "lost: the ring buffer was full.",
        ),
    ];
    kinds
        .into_iter()
        .filter(|&(count, ..)| count != 0)
        .map(|(count, (one, many), rest)| {
            let subject = if count == 1 { one } else { many };
            format!("{count} {subject} {rest}")
        })
        .collect()
}

/// Adds what a sentence tells, if it is one of [`sentences`]. What a sentence says is known by
/// making it: the words stand in one place alone.
pub(super) fn read(sentence: &str, filtered_out: &mut FilteredOut, losses: &mut Losses) {
    let number = sentence
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok());
    let Some(number) = number.filter(|&number: &u64| number != 0) else {
        return;
    };
    for place in FilteredOut::ALL {
        let mut only = FilteredOut::default();
        *place(&mut only) = number;
        if sentences(&only, &Losses::default()) == [sentence] {
            filtered_out.merge(&only);
            return;
        }
    }
    for place in Losses::COUNTERS {
        let mut only = Losses::default();
        *place(&mut only) = number;
        if sentences(&FilteredOut::default(), &only) == [sentence] {
            losses.merge(&only);
            return;
        }
    }
    if sentence.contains(" native frames: ") {
        read_reasons(sentence, &mut losses.unwind, &UnwindLosses::ALL, unwound);
    } else if sentence.contains(" no name: ") {
        read_reasons(
            sentence,
            &mut losses.unsymbolized_native_frames,
            &UnsymbolizedLosses::ALL,
            unnamed,
        );
    }
}

/// Adds the reasons that a sentence tells; `words` makes its end.
fn read_reasons<T: Default>(
    sentence: &str,
    losses: &mut T,
    places: &[Counter<T>],
    words: fn(&T) -> String,
) {
    for place in places {
        let mut only = T::default();
        *place(&mut only) = 1;
        let count = place(losses);
        *count = count.saturating_add(reason(sentence, &words(&only)));
    }
}

/// The number of a reason in a sentence; `alone` is the end of the sentence if it were alone, and
/// once.
fn reason(sentence: &str, alone: &str) -> u64 {
    let begin = alone.find(": ").map_or(0, |at| at + 2);
    let Some(words) = alone.find("(1)").and_then(|end| alone.get(begin..=end)) else {
        return 0;
    };
    let mut count = 0;
    // One reason may be the end of another.
    for before in [": ", ", "] {
        if let Some((_, rest)) = sentence.split_once(&format!("{before}{words}")) {
            let number = rest
                .split(')')
                .next()
                .and_then(|number| number.parse().ok());
            count = number.unwrap_or(0);
        }
    }
    count
}

/// For example `native frames: the stack was not in memory (12), there was no unwind table (3).`
fn unwound(losses: &UnwindLosses) -> String {
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
        (no_registers, "the registers were not known"),
        (unmapped, "an address was outside known code"),
        (no_table, "an unwind table was not loaded yet"),
        (no_rule, "there was no rule to unwind the code"),
        (fault, "the stack was not in memory"),
        (cfa_not_above, "the stack led back to itself"),
        (too_deep, "there were more than are kept"),
        (other, "for a reason that is not known"),
    ];
    format!("native frames: {}.", counted(reasons))
}

/// For example `no name: the file has no symbols (3), code made at run time that nobody names (2).`
fn unnamed(losses: &UnsymbolizedLosses) -> String {
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
        (no_map, "code made at run time that nobody names"),
        (not_in_map, "code made at run time that its map lacks"),
        (kptr_restricted, "the kernel hides its addresses"),
        (kallsyms_unreadable, "the kernel tells no functions"),
    ];
    let advice = match kptr_restricted {
        0 => "",
        _ => {
            " To name those of the kernel, run agent as root or with CAP_SYSLOG, and set the \
             sysctl kernel.kptr_restrict to 0 or 1."
        }
    };
    format!("no name: {}.{advice}", counted(reasons))
}

/// The reasons that there were, the most frequent first, each with how often.
fn counted<const N: usize>(mut reasons: [(u64, &str); N]) -> String {
    reasons.sort_by_key(|&(count, _)| Reverse(count));
    let seen = reasons.iter().take_while(|&&(count, _)| count != 0);
    let texts: Vec<_> = seen
        .map(|(count, reason)| format!("{reason} ({count})"))
        .collect();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lost_is_nothing_said() {
        assert!(sentences(&FilteredOut::default(), &Losses::default()).is_empty());
    }

    #[test]
    fn each_loss_is_a_sentence() {
        let losses = Losses {
            lost_samples: 12,
            truncated: 1,
            unsymbolized_python_frames: 2,
            ..Losses::default()
        };
        let filtered_out = FilteredOut {
            other_threads: 40,
            without_gil: 1,
        };
        assert_eq!(
            sentences(&filtered_out, &losses),
            [
                "40 samples are of other threads, and left out.",
                "1 sample is of threads that did not hold the GIL, and left out.",
                "12 samples were lost: the ring buffer was full.",
                "1 stack was too deep: the frames between the 256 at either end are left out.",
                "2 frames have no name: the function could not be told.",
            ]
        );
    }

    #[test]
    fn what_is_said_is_understood() {
        let mut filtered_out = FilteredOut::default();
        let mut losses = Losses::default();
        for (number, place) in (1..).zip(FilteredOut::ALL) {
            *place(&mut filtered_out) = number;
        }
        for (number, place) in (5..).zip(Losses::COUNTERS) {
            *place(&mut losses) = number;
        }
        for (number, place) in (20..).zip(UnwindLosses::ALL) {
            *place(&mut losses.unwind) = number;
        }
        for (number, place) in (40..).zip(UnsymbolizedLosses::ALL) {
            *place(&mut losses.unsymbolized_native_frames) = number;
        }
        let (mut left_out_again, mut losses_again) = (FilteredOut::default(), Losses::default());
        for sentence in sentences(&filtered_out, &losses) {
            read(&sentence, &mut left_out_again, &mut losses_again);
        }
        assert_eq!((left_out_again, losses_again), (filtered_out, losses));
    }

    #[test]
    fn other_words_say_nothing() {
        let (mut filtered_out, mut losses) = (FilteredOut::default(), Losses::default());
        for sentence in [
            "",
            "12 samples",
            "12 samples were lost: the ring buffer was full!",
            "0 samples were lost: the ring buffer was full.",
            "5 native frames have no name: the file has no symbols (",
            "5 stacks lack native frames: the stack was not in memory (x).",
        ] {
            read(sentence, &mut filtered_out, &mut losses);
        }
        assert_eq!((filtered_out, losses), Default::default());
    }

    #[test]
    fn missing_native_frames_are_one_sentence() {
        let losses = Losses {
            unwind: UnwindLosses {
                no_table: 3,
                fault: 12,
                ..UnwindLosses::default()
            },
            unmatched: 1,
            unsymbolized_native_frames: UnsymbolizedLosses {
                no_symbols: 2,
                no_map: 3,
                ..UnsymbolizedLosses::default()
            },
            ..Losses::default()
        };
        assert_eq!(
            sentences(&FilteredOut::default(), &losses),
            [
                "15 stacks lack native frames: the stack was not in memory (12), \
                 an unwind table was not loaded yet (3).",
                "1 stack has Python frames that no native frame seems to run: \
                 these stand at the root.",
                "5 native frames have no name: code made at run time that nobody names (3), \
                 the file has no symbols (2).",
            ]
        );
    }

    #[test]
    fn a_kernel_that_hides_its_addresses_can_be_told_not_to() {
        let losses = Losses {
            unsymbolized_native_frames: UnsymbolizedLosses {
                kptr_restricted: 1,
                ..UnsymbolizedLosses::default()
            },
            ..Losses::default()
        };
        assert_eq!(
            sentences(&FilteredOut::default(), &losses),
            [
                "1 native frame has no name: the kernel hides its addresses (1). To name those of \
                 the kernel, run agent as root or with CAP_SYSLOG, and set the sysctl \
                 kernel.kptr_restrict to 0 or 1."
            ]
        );
    }
}
