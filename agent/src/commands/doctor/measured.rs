//! Where unwinding of native stacks ends, in a second of samples.

use std::{borrow::Cow, time::Duration};

use crate::{
    formats::losses,
    profile::{Profile, Reached},
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
}

impl Measured {
    pub(crate) fn of(profile: &Profile) -> Self {
        // One process was sampled.
        let unwinding = profile.unwinding.first();
        let name = |reached| match reached {
            Reached::Nothing => Cow::Borrowed("no frame"),
            Reached::EvaluationLoop => "the evaluation loop of Python".into(),
            Reached::Executable(id) => profile.executable(id).name(),
        };
        let ends = unwinding.into_iter().flat_map(|it| &it.ends);
        Self {
            duration: profile.duration,
            walked: unwinding.map_or(0, |it| it.walked),
            complete: unwinding.map_or(0, |it| it.whole),
            ends: ends
                .map(|&(reached, count)| (name(reached).into_owned(), count))
                .collect(),
            losses: losses::sentences(&profile.left_out, &profile.losses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Measured;
    use crate::{
        formats::support::made_profile,
        profile::{ExecutableId, ProcessIndex, Reached, Unwinding},
    };

    #[test]
    fn the_ends_of_walks_are_named() {
        let mut profile = made_profile("/app.py");
        profile.unwinding = vec![Unwinding {
            process: ProcessIndex(0),
            walked: 9,
            whole: 3,
            ends: vec![
                (Reached::Executable(ExecutableId(1)), 3),
                (Reached::EvaluationLoop, 2),
                (Reached::Nothing, 1),
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
