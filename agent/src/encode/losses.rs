//! What a profile lacks, in plain sentences.

use crate::profile::Losses;

/// One sentence for each kind of loss that happened.
#[must_use]
pub fn sentences(losses: &Losses) -> Vec<String> {
    let Losses {
        lost_samples,
        truncated,
        incomplete,
        unresolved_frames,
        not_python,
        malformed_records,
    } = *losses;
    let kinds = [
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
        assert!(sentences(&Losses::default()).is_empty());
    }

    #[test]
    fn each_loss_is_a_sentence() {
        let losses = Losses {
            lost_samples: 12,
            truncated: 1,
            unresolved_frames: 2,
            ..Losses::default()
        };
        assert_eq!(
            sentences(&losses),
            [
                "12 samples were lost: the ring buffer was full.",
                "1 stack was too deep: the frames between the 256 at either end are left out.",
                "2 frames have no name: the function could not be told.",
            ]
        );
    }
}
