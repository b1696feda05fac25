//! What threads are called at the places where they keep others waiting.

use std::{borrow::Cow, collections::HashMap};

use crate::{
    commands::summary::{MAX_SIMILAR, common_name, thread_name, without_numbers},
    profile::{Profile, Thread},
};

/// By what is common to similar names: how many there are, and what all of them are called.
///
/// Many whose names differ only by numbers have one.
pub(super) struct PlaceNames(HashMap<String, (usize, String)>);

impl PlaceNames {
    /// With the names of the threads of a profile.
    pub(super) fn of(profile: &Profile) -> Self {
        let mut groups = HashMap::<String, Vec<&str>>::new();
        for Thread { name, .. } in &profile.threads {
            let name = name.trim();
            groups.entry(without_numbers(name)).or_default().push(name);
        }
        let groups = groups.into_iter().map(|(group, names)| {
            let name = common_name(names.iter().copied());
            (group, (names.len(), name))
        });
        Self(groups.collect())
    }

    /// What the thread with this name is called.
    pub(super) fn shown<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.0.get(&without_numbers(name.trim())) {
            Some((count, group)) if *count > MAX_SIMILAR => thread_name(group).into_owned().into(),
            _ => thread_name(name),
        }
    }
}
