//! Profiles with the same samples in other stacks.

use std::collections::HashMap;

use super::{
    indices::{LocationId, StackId},
    model::{Profile, Sample, Sampled},
};

impl Profile {
    /// The same samples, each in the stack that `shown` makes of its own; stacks that become equal are one. Vectors of
    /// the profile keep what is no longer used.
    pub(super) fn restacked(&self, shown: impl Fn(&[LocationId]) -> Vec<LocationId>) -> Self {
        let mut profile = self.clone();
        profile.stacks.clear();
        let mut indices = HashMap::new();
        let stacks: Vec<StackId> = self
            .stacks
            .iter()
            .map(|stack| {
                *indices.entry(shown(stack)).or_insert_with_key(|shown| {
                    profile.stacks.push(shown.as_slice().into());
                    StackId(u32::try_from(profile.stacks.len() - 1).unwrap_or(u32::MAX))
                })
            })
            .collect();
        let (samples, merged_as) = merged(self.samples.iter().map(|sample| Sample {
            stack: stacks[sample.stack.0 as usize],
            ..*sample
        }));
        profile.samples = samples;
        let timeline = self.timeline.as_ref();
        profile.timeline =
            timeline.map(|timeline| timeline.renumbered(|old| merged_as[old as usize]));
        profile
    }
}

/// Samples with at most one for a stack, a thread and a task, in the order of the first ones, and the index there of each
/// of `samples`.
fn merged(samples: impl Iterator<Item = Sample>) -> (Vec<Sample>, Vec<u32>) {
    let mut indices = HashMap::<Sampled, usize>::new();
    let mut merged = Vec::<Sample>::new();
    let mut merged_as = Vec::new();
    for sample in samples {
        let index = *indices.entry(sample.sampled()).or_insert(merged.len());
        merged_as.push(u32::try_from(index).unwrap_or(u32::MAX));
        match merged.get_mut(index) {
            Some(known) => {
                known.count = known.count.saturating_add(sample.count);
                known.value = known.value.saturating_add(sample.value);
            }
            None => merged.push(sample),
        }
    }
    (merged, merged_as)
}
