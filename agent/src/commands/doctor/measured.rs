//! Where unwinding of native stacks ends, in a second of samples.

use std::{borrow::Cow, time::Duration};

use crate::{
    formats::losses,
    profile::{LastFrame, Profile},
};

/// What the samples show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Time sampled.
    pub duration: Duration,
    /// Samples whose native stack was unwound.
    pub walked: u64,
    /// Those with complete native stacks.
    pub complete: u64,
    /// Where the others end, with their samples, most first.
    pub ends: Vec<(String, u64)>,
    /// Other losses, in sentences.
    pub losses: Vec<String>,
    /// Events that cannot be sampled, by name, with the reason.
    pub refused_events: Vec<(&'static str, String)>,
}

impl Measured {
    pub(crate) fn of(profile: &Profile) -> Self {
        // One process was sampled.
        let unwinding = profile.unwind_stats.first();
        let name = |reached| match reached {
            LastFrame::NoFrame => Cow::Borrowed("no frame"),
            LastFrame::EvaluationLoop => "the evaluation loop of Python".into(),
            LastFrame::Executable(id) => profile.executable(id).name(),
        };
        let ends = unwinding.into_iter().flat_map(|it| &it.incomplete);
        Self {
            duration: profile.duration,
            walked: unwinding.map_or(0, |it| it.walked),
            complete: unwinding.map_or(0, |it| it.complete),
            ends: ends
                .map(|&(reached, count)| (name(reached).into_owned(), count))
                .collect(),
            losses: losses::sentences(&profile.filtered_out, &profile.losses),
            refused_events: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Measured;
    use crate::{
        profile::fixtures::example_profile,
        profile::{ExecutableId, LastFrame, ProcessIndex, UnwindStats},
    };

    #[test]
    fn the_ends_of_walks_are_named() {
        let mut profile = example_profile("/app.py");
        profile.unwind_stats = vec![UnwindStats {
            process: ProcessIndex(0),
            walked: 9,
            complete: 3,
            incomplete: vec![
                (LastFrame::Executable(ExecutableId(1)), 3),
                (LastFrame::EvaluationLoop, 2),
                (LastFrame::NoFrame, 1),
            ],
        }];
        let measured = Measured::of(&profile);
        assert_eq!((measured.walked, measured.complete), (9, 3));
        let ends: Vec<_> = measured.ends.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            ends,
            ["libc.so.6", "the evaluation loop of Python", "no frame"]
        );
        assert_eq!(measured.duration, profile.duration);
        assert!(measured.losses[0].starts_with("12 samples were lost"));
    }
}
