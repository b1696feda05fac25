//! What threads are called at the places where they keep others waiting.

use std::{borrow::Cow, collections::HashMap};

use crate::{
    commands::summary::{similar, thread_name, without_numbers},
    profile::Profile,
};

/// What many threads are called whose names differ only by numbers, by those without numbers.
pub(super) struct PlaceNames(HashMap<String, String>);

impl PlaceNames {
    /// With the names of the threads of a profile.
    pub(super) fn of(profile: &Profile) -> Self {
        let names = profile.threads.iter().map(|thread| thread.name.trim());
        let groups = similar(names, |name| name);
        let many = groups.filter_map(|(common, names)| {
            let common = thread_name(&common?).into_owned();
            Some((without_numbers(names.first()?), common))
        });
        Self(many.collect())
    }

    /// What the thread with this name is called.
    pub(super) fn shown<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.0.get(&without_numbers(name.trim())) {
            Some(common) => common.clone().into(),
            None => thread_name(name),
        }
    }
}
