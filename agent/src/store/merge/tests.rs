use super::*;
use crate::{
    formats::{EncodeOptions, Format, encode},
    profile::fixtures::{example_processes, example_profile},
};

const SECOND: Duration = Duration::from_secs(1);

fn merged(profiles: &[(&str, &Profile)]) -> Profile {
    let mut merger = Merger::default();
    for (service, profile) in profiles {
        merger.add(service, profile).unwrap();
    }
    merger.finish().unwrap().0
}

fn folded(profile: &Profile) -> BTreeMap<String, u64> {
    let mut bytes = Vec::new();
    encode(
        profile,
        Format::Folded,
        EncodeOptions::default(),
        &mut bytes,
    )
    .unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.lines()
        .map(|line| {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            (stack.to_owned(), count.parse().unwrap())
        })
        .collect()
}

/// The example profile, shifted in time, of the process with this ID.
fn later(by: Duration, pid: u32) -> Profile {
    let mut profile = example_profile("main.py");
    profile.start += by;
    profile.processes[0].pid = pid;
    profile
}

#[test]
fn equal_stacks_are_counted_together() {
    let first = later(Duration::ZERO, 1);
    let mut second = later(10 * SECOND, 2);
    // Their tables need not be in the same order.
    second.samples.reverse();
    second.samples.remove(3);
    let both = merged(&[("web", &first), ("web", &second)]);
    let mut expected = folded(&first);
    for (stack, count) in folded(&second) {
        *expected.entry(stack).or_default() += count;
    }
    assert_eq!(folded(&both), expected);
    assert_eq!(both.stacks.len(), folded_stacks(&first));
    assert_eq!(both.losses.lost_samples, 2 * first.losses.lost_samples);
    let [process] = &*both.processes else {
        panic!("{:?}", both.processes);
    };
    assert_eq!((process.pid, &*process.name), (0, "web"));
    assert_eq!(process.runtime, "CPython 3.12.1");
}

/// How many stacks of a profile have samples.
fn folded_stacks(profile: &Profile) -> usize {
    let stacks = profile.samples.iter().map(|sample| sample.stack);
    stacks.collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn a_process_that_is_the_same_in_all_stays() {
    let profile = later(Duration::ZERO, 7);
    let both = merged(&[("web", &profile), ("web", &later(SECOND, 7))]);
    assert_eq!(both.processes[0].pid, 7);
    assert_eq!(both.processes[0].name, "python3.12");
}

#[test]
fn services_are_told_apart() {
    let profile = example_profile("main.py");
    let both = merged(&[("web", &profile), ("jobs", &example_processes("main.py"))]);
    let names: Vec<_> = both
        .processes
        .iter()
        .map(|it| (it.pid, &*it.name))
        .collect();
    assert_eq!(names, [(4242, "python3.12"), (0, "jobs")]);
    // Of several runtimes there is none to name.
    assert_eq!(both.processes[1].runtime, "");
    assert!(both.processes[1].is_python);
    assert!(folded(&both).keys().any(|stack| stack.starts_with("jobs;")));
}

#[test]
fn different_periods_are_added_by_time() {
    let often = later(Duration::ZERO, 1);
    let mut seldom = later(10 * SECOND, 1);
    seldom.period = often.period * 7 / 3;
    for sample in &mut seldom.samples {
        sample.value = sample.count * seldom.period;
    }
    let both = merged(&[("web", &seldom), ("web", &often)]);
    assert_eq!(both.period, often.period);
    let values = often.total_value() + seldom.total_value();
    assert_eq!(both.total_value(), values);
    let lacking = values - both.total() * both.period;
    assert!(lacking < both.period, "{lacking}");
    let (of_often, of_both) = (folded(&often), folded(&both));
    assert_eq!(of_both.len(), of_often.len());
    for (stack, count) in of_often {
        // Each was there as often in both, so it has ten thirds of the samples.
        let expected = count + count * 7 / 3;
        assert!(of_both[&stack].abs_diff(expected) <= 2, "{stack}");
    }
}

#[test]
fn time_that_several_windows_cover_counts_once() {
    let window = |start: u32, length: u32| {
        let mut profile = later(SECOND * start, 1);
        profile.duration = SECOND * length;
        profile
    };
    let windows =
        [(0, 10), (10, 10), (5, 10), (30, 5), (31, 1)].map(|(start, length)| window(start, length));
    let profiles: Vec<_> = windows.iter().map(|profile| ("web", profile)).collect();
    let all = merged(&profiles);
    assert_eq!(all.duration, SECOND * 25);
    assert_eq!(all.start, windows[0].start);
}

#[test]
fn labels_that_all_have_stay() {
    let with = |pod: &str| {
        let mut profile = example_profile("main.py");
        let labels = [("service_name", "web"), ("pod", pod)];
        profile.labels = labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        profile
    };
    let (first, second) = (with("1"), with("2"));
    let same = merged(&[("web", &first), ("web", &first)]);
    assert_eq!(same.labels, first.labels);
    let other = merged(&[("web", &first), ("web", &second)]);
    assert_eq!(
        other.labels.into_keys().collect::<Vec<_>>(),
        ["service_name"]
    );
}

#[test]
fn nothing_is_no_profile() {
    assert!(Merger::default().finish().is_none());
}

#[test]
fn more_than_there_is_room_for_is_refused() {
    let mut merger = Merger::default();
    let mut profile = example_profile("main.py");
    profile.samples[0].value = i64::MAX.unsigned_abs() / 2;
    merger.add("web", &profile).unwrap();
    merger.add("web", &profile).unwrap_err();
    let before = merger.files();
    let small = example_profile("main.py");
    merger.add("web", &small).unwrap();
    assert_eq!(merger.files(), before + 1);
    merger.bytes = MAX_BYTES;
    merger.add("web", &small).unwrap_err();
}
