//! Flags without an effect on what the command line asks for: they are refused, so that none is ignored in silence.

/// What flags are about, and how to ask for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// It follows `is about`.
    pub(super) about: &'static str,
    /// What to change on the command line.
    pub(super) advice: &'static str,
}

/// What the command line does with flags about one subject.
pub(super) struct Use {
    subject: &'static Subject,
    has_effect: bool,
    /// The first of the flags that is given.
    given: Option<&'static str>,
}

impl Use {
    /// Flags about this subject have an effect, or none.
    pub(super) fn of(subject: &'static Subject, has_effect: bool) -> Self {
        Self {
            subject,
            has_effect,
            given: None,
        }
    }

    /// This is one of the flags.
    pub(super) fn flag(self, name: &'static str, is_given: bool) -> Self {
        let given = self.given.or(is_given.then_some(name));
        Self { given, ..self }
    }
}

/// A flag changes nothing of what is asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{flag} is about {}: {}, or leave it out", subject.about, subject.advice)]
pub struct NoEffect {
    flag: &'static str,
    subject: &'static Subject,
}

/// Refuses the first flag that is given without an effect.
pub(super) fn check(uses: impl IntoIterator<Item = Use>) -> Result<(), NoEffect> {
    let mut uses = uses.into_iter().filter(|it| !it.has_effect);
    let without = uses.find_map(|it| Some((it.given?, it.subject)));
    without.map_or(Ok(()), |(flag, subject)| Err(NoEffect { flag, subject }))
}
