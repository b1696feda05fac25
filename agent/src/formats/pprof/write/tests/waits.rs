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
    let message = decoded(&waiting());
    let mut labels: Vec<_> = message
        .sample
        .iter()
        .flat_map(|sample| &sample.label)
        .filter(|label| message.text(label.key) == "wait")
        .map(|label| message.text(label.str))
        .collect();
    labels.sort_unstable();
    assert_eq!(labels, ["lock", "page fault", "runnable"]);
    let cpu = decoded(&example_profile("/srv/app/main.py"));
    assert!(!cpu.string_table.contains(&"wait".to_owned()));
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
