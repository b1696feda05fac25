//! What threads wait for, in pprof and as it is read again.

use super::decoded;
use crate::{
    formats::{
        EncodeOptions,
        pprof::{PprofFile, write},
    },
    profile::{
        Profile, Wait,
        fixtures::{example_profile, of_kind, with_waits},
        kinds::wall,
    },
};

fn waiting() -> Profile {
    let waits = [
        (0, "[waiting: lock]"),
        (1, "[runnable]"),
        (2, "[waiting: page fault]"),
    ];
    let profile = with_waits(example_profile("/srv/app/main.py"), &waits);
    of_kind(profile, &wall::KIND)
}

#[test]
fn what_a_thread_waits_for_is_a_label() {
    assert_eq!(
        labels(&waiting(), "wait"),
        ["lock", "page fault", "runnable"]
    );
    let cpu = decoded(&example_profile("/srv/app/main.py"));
    assert!(!cpu.string_table.contains(&"wait".to_owned()));
}

#[test]
fn garbage_collection_is_a_label() {
    let profile = example_profile("/srv/app/main.py");
    assert_eq!(labels(&profile, "gc"), [""; 0]);
    let collecting = with_waits(profile, &[(1, "[gc]")]);
    assert_eq!(labels(&collecting, "gc"), ["true"]);
}

/// The values of the labels with a key, in their order.
fn labels(profile: &Profile, key: &str) -> Vec<String> {
    let message = decoded(profile);
    let mut labels: Vec<_> = message
        .sample
        .iter()
        .flat_map(|sample| &sample.label)
        .filter(|label| message.text(label.key) == key)
        .map(|label| message.text(label.str).to_owned())
        .collect();
    labels.sort_unstable();
    labels
}

#[test]
fn what_a_thread_waits_for_is_read_again() {
    let mut profile = waiting();
    profile.filtered_out.idle_ns = 1_500_000_000;
    let mut bytes = Vec::new();
    write(&profile, EncodeOptions::default(), &mut bytes).unwrap();
    let again = PprofFile::new(&bytes).unwrap().profile().unwrap();
    assert_eq!(again.kind, &wall::KIND);
    assert_eq!(again.filtered_out, profile.filtered_out);
    let values = |profile: &Profile| {
        let samples = profile.samples.iter();
        let waits = samples.filter_map(|it| Some((profile.wait_of(it)?, it.value)));
        let mut waits: Vec<(Wait, u64)> = waits.collect();
        waits.sort_unstable();
        waits
    };
    assert_eq!(values(&again).len(), 3);
    assert_eq!(values(&again), values(&profile));
}
