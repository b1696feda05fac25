//! The processed profile of the Firefox Profiler, by its types: <https://github.com/firefox-devtools/profiler>,
//! `src/types/profile.js`. Nothing else that is published reads it without a browser.

use std::collections::BTreeMap;

use agent::testing::{formats::Format, profile::Profile};
use serde::Deserialize;

use super::{
    encoded,
    speedscope::{folded, function},
    timed_profiles,
};

#[derive(Deserialize)]
struct Document {
    meta: Meta,
    threads: Vec<Thread>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    version: u32,
    preprocessed_profile_version: u32,
    /// Milliseconds.
    interval: f64,
    symbolicated: bool,
    categories: Vec<Category>,
}

#[derive(Deserialize)]
struct Category {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    name: String,
    process_name: String,
    samples: Samples,
    stack_table: Stacks,
    frame_table: Frames,
    func_table: Functions,
    string_array: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    length: usize,
    weight_type: String,
    stack: Vec<Option<usize>>,
    /// Milliseconds from the sample before.
    time_deltas: Vec<f64>,
    weight: Vec<u32>,
}

#[derive(Deserialize)]
struct Stacks {
    prefix: Vec<Option<usize>>,
    frame: Vec<usize>,
}

#[derive(Deserialize)]
struct Frames {
    func: Vec<usize>,
    category: Vec<usize>,
}

#[derive(Deserialize)]
struct Functions {
    name: Vec<usize>,
}

impl Thread {
    /// Functions of a stack, the root first.
    fn stack(&self, stack: usize) -> Vec<String> {
        let callers = |stack: &usize| self.stack_table.prefix[*stack];
        let stacks = std::iter::successors(Some(stack), callers);
        let names = stacks.map(|stack| {
            let frame = self.stack_table.frame[stack];
            let name = self.func_table.name[self.frame_table.func[frame]];
            function(&self.string_array[name])
        });
        let mut names: Vec<_> = names.collect();
        names.reverse();
        names
    }

    /// Weights and milliseconds of stacks.
    fn stacks(&self) -> BTreeMap<Vec<String>, (u64, f64)> {
        let Samples {
            length,
            weight_type,
            stack,
            time_deltas,
            weight,
        } = &self.samples;
        assert_eq!(weight_type, "samples");
        assert_eq!([stack.len(), time_deltas.len(), weight.len()], [*length; 3]);
        // A stack lasts until the next sample; the last one has none.
        assert_eq!(stack.last(), Some(&None));
        let mut stacks = BTreeMap::<_, (u64, f64)>::new();
        for (nth, stack) in stack.iter().enumerate() {
            if let Some(stack) = stack {
                let (weights, time) = stacks.entry(self.stack(*stack)).or_default();
                *weights += u64::from(weight[nth]);
                *time += time_deltas[nth + 1];
            } else {
                assert_eq!(weight[nth], 0);
            }
        }
        stacks
    }
}

fn expected(profile: &Profile) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    for (stack, count) in folded(profile) {
        let functions = stack[1..].iter().map(|frame| function(frame));
        // Names of threads are in the first frame.
        let stack = [stack[0].clone()].into_iter().chain(functions).collect();
        *stacks.entry(stack).or_default() += count;
    }
    stacks
}

#[test]
fn all_stacks_have_their_samples_and_their_time() {
    for profile in timed_profiles() {
        let bytes = encoded(&profile, Format::Firefox);
        let Document { meta, threads } = serde_json::from_slice(&bytes).unwrap();
        assert!(meta.version >= 24 && meta.preprocessed_profile_version >= 49);
        assert!(meta.symbolicated);
        assert_eq!(threads.len(), profile.threads.len());
        let mut read = BTreeMap::new();
        for thread in &threads {
            for (mut stack, (weight, time)) in thread.stacks() {
                let expected = meta.interval * f64::from(u32::try_from(weight).unwrap());
                assert!((time - expected).abs() < 1e-3, "{stack:?}: {time}");
                let title = if profile.processes.len() > 1 {
                    format!("{}, {}", thread.process_name, thread.name)
                } else {
                    thread.name.clone()
                };
                stack.insert(0, title.trim().replace(';', ":"));
                assert!(read.insert(stack, weight).is_none());
            }
            for (frame, category) in thread.frame_table.category.iter().enumerate() {
                let name =
                    &thread.string_array[thread.func_table.name[thread.frame_table.func[frame]]];
                if name.contains(".py") {
                    assert_eq!(meta.categories[*category].name, "Python", "{name}");
                }
            }
        }
        assert_eq!(read, expected(&profile));
    }
}
