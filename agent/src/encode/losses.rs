//! What a profile lacks, in plain sentences.

use crate::profile::{LeftOut, Losses};

/// One sentence for each kind of sample that a filter left out, and of loss that happened.
#[must_use]
pub fn sentences(left_out: &LeftOut, losses: &Losses) -> Vec<String> {
    let LeftOut {
        other_threads,
        without_gil,
    } = *left_out;
    let Losses {
        lost_samples,
        truncated,
        incomplete,
        unresolved_frames,
        not_python,
        malformed_records,
        left_out_processes,
        lost_process_events,
    } = *losses;
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
            unresolved_frames,
            ("frame has", "frames have"),
            "no name: the function could not be told.",
        ),
        (
            not_python,
            ("sample is", "samples are"),
            "of threads that ran no Python.",
        ),
        (
            malformed_records,
            ("record was", "records were"),
            "dropped: the agent could not understand what the kernel half sent.",
        ),
        (
            left_out_processes,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lost_is_nothing_said() {
        assert!(sentences(&LeftOut::default(), &Losses::default()).is_empty());
    }

    #[test]
    fn each_loss_is_a_sentence() {
        let losses = Losses {
            lost_samples: 12,
            truncated: 1,
            unresolved_frames: 2,
            ..Losses::default()
        };
        let left_out = LeftOut {
            other_threads: 40,
            without_gil: 1,
        };
        assert_eq!(
            sentences(&left_out, &losses),
            [
                "40 samples are of other threads, and left out.",
                "1 sample is of threads that did not hold the GIL, and left out.",
                "12 samples were lost: the ring buffer was full.",
                "1 stack was too deep: the frames between the 256 at either end are left out.",
                "2 frames have no name: the function could not be told.",
            ]
        );
    }
}
