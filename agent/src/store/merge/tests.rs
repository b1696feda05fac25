use super::*;
use crate::{
    formats::{EncodeOptions, Format, PprofFile, encode},
    profile::{
        fixtures::{example_processes, example_profile, of_kind},
        kinds::{allocations, exceptions, wall},
    },
};

const SECOND: Duration = Duration::from_secs(1);

fn merged(profiles: &[(&str, &Profile)]) -> Profile {
    let mut merger = Merger::default();
    for (service, profile) in profiles {
        merger.add(service, profile).unwrap();
    }
    merger.finish().unwrap().0
}

fn encoded(profile: &Profile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(profile, format, EncodeOptions::default(), &mut bytes).unwrap();
    bytes
}

fn folded(profile: &Profile) -> BTreeMap<String, u64> {
    let text = String::from_utf8(encoded(profile, Format::Folded)).unwrap();
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
    // Samples are those that were taken.
    assert_eq!(both.total(), often.total() + seldom.total());
    let (of_often, of_both) = (folded(&often), folded(&both));
    assert_eq!(of_both.values().sum::<u64>(), both.total());
    assert_eq!(of_both.len(), of_often.len());
    for (stack, count) in of_often {
        // Each has the same part of the time in both.
        assert!(of_both[&stack].abs_diff(2 * count) <= 2, "{stack}");
    }
}

#[test]
fn time_at_a_lowered_rate_counts_as_much_in_flame_graphs() {
    let mut often = later(Duration::ZERO, 1);
    often.samples.truncate(1);
    often.samples[0].count = 300;
    often.samples[0].value = 300 * often.period;
    let mut seldom = often.clone();
    seldom.samples[0] = Sample {
        stack: StackId(often.samples[0].stack.0 + 1),
        count: 100,
        ..often.samples[0]
    };
    seldom.period *= 3;
    let both = merged(&[("web", &often), ("web", &seldom)]);
    let counts: Vec<_> = both.samples.iter().map(|sample| sample.count).collect();
    assert_eq!(counts, [300, 100]);
    let plotted: Vec<_> = folded(&both).into_values().collect();
    assert_eq!(plotted, [200, 200]);
}

#[test]
fn counts_are_sums_whatever_their_values_are_to_the_period() {
    let with = |kind: &'static Kind, count, value| {
        let mut profile = of_kind(example_profile("main.py"), kind);
        profile.samples.truncate(1);
        profile.samples[0].count = count;
        profile.samples[0].value = value;
        profile
    };
    for kind in [&allocations::KIND, &exceptions::KIND, &wall::KIND] {
        let (one, other) = (with(kind, 10_155, 30 << 20), with(kind, 8_759, 24 << 20));
        let both = merged(&[("web", &one), ("web", &other)]);
        assert_eq!(both.total(), 18_914, "{}", kind.name);
        assert_eq!(both.total_value(), 54 << 20, "{}", kind.name);
        let file = PprofFile::new(&encoded(&both, Format::Pprof)).unwrap();
        let head = file.head().unwrap();
        assert_eq!(head.total.count, 18_914, "{}", kind.name);
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
    let mut counted = example_profile("main.py");
    counted.samples[0].count = i64::MAX.unsigned_abs();
    merger.add("web", &counted).unwrap_err();
    let before = merger.files();
    let small = example_profile("main.py");
    merger.add("web", &small).unwrap();
    assert_eq!(merger.files(), before + 1);
    merger.bytes = MAX_BYTES;
    merger.add("web", &small).unwrap_err();
}
