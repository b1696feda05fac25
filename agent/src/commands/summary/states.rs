//! The states of threads: in a profile of elapsed time running, runnable, waiting and for what; in any the
//! share of garbage collection.

use std::{cmp::Reverse, collections::BTreeMap};

use super::share::percent;
use crate::profile::{Profile, Wait};

/// For example `0.25 s running, 1.00 s runnable, 10.75 s waiting: lock 6.75 s, sleep 4.00 s`: states that
/// have time, and what threads wait for, the longest first. [`None`] for a kind without states.
pub(super) fn states_text(profile: &Profile) -> Option<String> {
    // What threads did that released locks is no state of theirs.
    if !profile.kind.is_of_passes() || profile.kind.is_about_releases() {
        return None;
    }
    let text = |value| profile.kind.unit.text(value);
    let (mut running, mut runnable) = (0_u64, 0_u64);
    let mut waiting = BTreeMap::<Wait, u64>::new();
    for sample in &profile.samples {
        let value = match profile.wait_of(sample) {
            None => &mut running,
            Some(Wait::Runnable) => &mut runnable,
            Some(wait) => waiting.entry(wait).or_default(),
        };
        *value = value.saturating_add(sample.value);
    }
    let mut states = Vec::new();
    for (value, state) in [(running, "running"), (runnable, "runnable")] {
        if value != 0 {
            states.push(format!("{} {state}", text(value)));
        }
    }
    if !waiting.is_empty() {
        let total = waiting
            .values()
            .fold(0, |sum: u64, value| sum.saturating_add(*value));
        let mut reasons: Vec<_> = waiting.into_iter().collect();
        // The sort is stable: of equals the order is that of the reasons.
        reasons.sort_by_key(|&(_, value)| Reverse(value));
        let reasons: Vec<_> = reasons
            .into_iter()
            .map(|(wait, value)| format!("{} {}", wait.label(), text(value)))
            .collect();
        states.push(format!("{} waiting: {}", text(total), reasons.join(", ")));
    }
    (!states.is_empty()).then(|| states.join(", "))
}

/// For example `1.20 s (30.0 %) in garbage collection`; [`None`] where there is none.
pub(super) fn gc_text(profile: &Profile) -> Option<String> {
    let collecting = profile
        .samples
        .iter()
        .filter(|sample| profile.leaf_markers(sample).collects_garbage)
        .fold(0, |sum: u64, sample| sum.saturating_add(sample.value));
    let text = profile.kind.unit.text(collecting);
    let share = percent(collecting, profile.total_value());
    (collecting != 0).then(|| format!("{text} ({share:.1} %) in garbage collection"))
}

#[cfg(test)]
mod tests {
    use super::{gc_text, states_text};
    use crate::profile::{
        CPU,
        fixtures::{example_profile, of_kind, with_waits},
        kinds::{off_cpu, wall},
    };

    #[test]
    fn states_have_their_time_and_reasons_are_sorted_by_it() {
        let waits = [
            (0, "[runnable]"),
            (1, "[waiting: lock]"),
            (2, "[waiting: sleep]"),
            (3, "[waiting: sleep]"),
        ];
        let profile = with_waits(example_profile(""), &waits);
        let text = |kind| states_text(&of_kind(profile.clone(), kind));
        let all = "2.00 s running, 1.20 s runnable, 0.80 s waiting: sleep 0.50 s, lock 0.30 s";
        assert_eq!(text(&wall::KIND).as_deref(), Some(all));
        assert_eq!(text(&CPU), None);
    }

    #[test]
    fn garbage_collection_has_its_share() {
        assert_eq!(gc_text(&example_profile("")), None);
        let profile = with_waits(example_profile(""), &[(0, "[gc]")]);
        let text = gc_text(&profile);
        assert_eq!(
            text.as_deref(),
            Some("1.20 s (30.0 %) in garbage collection")
        );
    }

    #[test]
    fn a_state_without_time_is_not_shown() {
        let mut profile = of_kind(example_profile(""), &wall::KIND);
        assert_eq!(states_text(&profile).as_deref(), Some("4.00 s running"));
        profile.samples.truncate(1);
        let waits = with_waits(profile.clone(), &[(0, "[waiting: gil]")]);
        let waits = of_kind(waits, &off_cpu::KIND);
        assert_eq!(
            states_text(&waits).as_deref(),
            Some("1.20 s waiting: gil 1.20 s")
        );
        profile.samples.clear();
        assert_eq!(states_text(&profile), None);
    }
}
