//! Chrome's trace events, as speedscope's importer for them reads them.

use std::collections::BTreeMap;

use agent::testing::{formats::Format, profile::Profile};

use super::{
    encoded,
    speedscope::{folded, function, read},
    timed_profiles,
};

/// Microseconds of each stack of functions in all threads.
fn expected(profile: &Profile) -> BTreeMap<Vec<String>, f64> {
    let mut stacks = BTreeMap::<Vec<String>, f64>::new();
    for (stack, count) in folded(profile) {
        let stack = stack[1..].iter().map(|frame| function(frame)).collect();
        let time = u32::try_from(count * profile.period / 1_000).unwrap();
        *stacks.entry(stack).or_default() += f64::from(time);
    }
    stacks
}

#[test]
fn speedscope_reads_all_stacks_with_their_time() {
    for profile in timed_profiles() {
        let threads = read("a.json", &encoded(&profile, Format::Chrome));
        assert_eq!(threads.len(), profile.threads.len());
        let mut stacks = BTreeMap::<Vec<String>, f64>::new();
        for thread in threads {
            assert_eq!(thread.unit, "microseconds");
            for (stack, time) in thread.functions() {
                *stacks.entry(stack).or_default() += time;
            }
        }
        let expected = expected(&profile);
        let keys = |of: &BTreeMap<Vec<String>, f64>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&stacks), keys(&expected));
        for (stack, time) in stacks {
            assert!((time - expected[&stack]).abs() < 0.5, "{stack:?}: {time}");
        }
    }
}
